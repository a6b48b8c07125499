use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use super::*;

const PLAIN: CorpusOptions =
    CorpusOptions { vocab_size: None, min_count: 0, vocabulary: None, extend: false, tokenize: false };

fn folder(train: &[u8], valid: &[u8], test: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in [("train.txt", train), ("valid.txt", valid), ("test.txt", test)] {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

#[track_caller]
fn check_error(result: Result<Corpus>, dir: &Path, expected: &str) {
    assert_eq!(result.unwrap_err().to_string().replace(&dir.display().to_string(), "DIR"), expected);
}

fn words(corpus: &Corpus) -> Vec<&str> {
    corpus.vocabulary.words().collect()
}

/// The folder of a real corpus beside the repository, if it is there.
fn real(name: &str) -> Option<PathBuf> {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")).join(name);
    if dir.is_dir() {
        return Some(dir);
    }
    // Past the test harness, which would keep it to itself.
    let _ = writeln!(std::io::stderr(), "skipped: the corpus {} is not there", dir.display());
    None
}

#[test]
fn a_folder_becomes_ids() {
    let dir = folder(b"the cat sat\nthe dog\n", b"the dog\n", b"cat\n\n");
    let corpus = Corpus::open(dir.path(), PLAIN).unwrap();
    assert_eq!(words(&corpus), ["the", "<eos>", "cat", "sat", "dog"]);
    assert_eq!(corpus.train.ids, [0, 2, 3, 1, 0, 4, 1]);
    assert_eq!(corpus.valid.ids, [0, 4, 1]);
    assert_eq!(corpus.test.ids, [2, 1, 1]);
    assert_eq!((corpus.test.lines, corpus.test.unseen, corpus.test.first_line), (2, 0, 1));
    assert_eq!(corpus.test.path, dir.path().join("test.txt"));
    assert_eq!(corpus.test.sha256, sha256_hex(b"cat\n\n"));
    assert_eq!(corpus.split(SplitName::Test), &corpus.test);
}

#[test]
fn unseen_words_become_unk_and_are_counted() {
    let corpus = Corpus::from_texts("a b a\n", "c a c d\n", "b b\n", PLAIN).unwrap();
    assert_eq!(words(&corpus), ["a", "b", "<eos>", "<unk>"]);
    assert_eq!(corpus.valid.ids, [3, 0, 3, 3, 2]);
    assert_eq!((corpus.valid.unseen, corpus.valid.unseen_types), (3, 2));
    assert_eq!((corpus.train.unseen, corpus.test.unseen), (0, 0));
    // The literal `<unk>` is not unseen, in whichever split it first stands.
    let corpus = Corpus::from_texts("a b\n", "a <unk>\n", "a\n", PLAIN).unwrap();
    assert_eq!(words(&corpus), ["a", "b", "<eos>", "<unk>"]);
    assert_eq!((corpus.valid.ids[1], corpus.valid.unseen), (3, 0));
}

#[test]
fn without_unseen_words_there_is_no_unk() {
    let corpus = Corpus::from_texts("a b\n", "b\n", "a\n", PLAIN).unwrap();
    assert_eq!(words(&corpus), ["a", "b", "<eos>"]);
}

#[test]
fn a_limit_leaves_the_rare_words_to_unk_in_train_too() {
    let options = CorpusOptions { vocab_size: Some(4), ..PLAIN };
    let corpus = Corpus::from_texts("a b b c c c\n", "a b c\n", "d c\n", options).unwrap();
    assert_eq!(words(&corpus), ["c", "b", "<eos>", "<unk>"]);
    assert_eq!(corpus.train.ids, [3, 1, 1, 0, 0, 0, 2]);
    assert_eq!((corpus.train.unseen, corpus.train.unseen_types), (1, 1));
    assert_eq!((corpus.valid.unseen, corpus.test.unseen), (1, 1));
    let error = Corpus::from_texts("a b\n", "a\n", "a\n", CorpusOptions { vocab_size: Some(0), ..PLAIN }).unwrap_err();
    assert!(error.to_string().starts_with("setting `vocab_size`: 0 is too small"), "{error}");
}

#[test]
fn tokenizing_happens_before_counting() {
    let options = CorpusOptions { tokenize: true, ..PLAIN };
    let corpus = Corpus::from_texts("The cat. the CAT, don't\n", "Don't.\n", "THE\n", options).unwrap();
    assert_eq!(words(&corpus), ["the", "cat", ".", ",", "do", "n't", "<eos>"]);
    assert_eq!(corpus.valid.ids, [4, 5, 2, 6]);
}

#[test]
fn windows_line_ends_make_no_difference() {
    let unix = Corpus::from_texts("a b\n\nc\n", "a\n", "b\n", PLAIN).unwrap();
    let windows = Corpus::from_texts("a b\r\n\r\nc\r\n", "a\r\n", "b\r\n", PLAIN).unwrap();
    assert_eq!((unix.vocabulary, unix.train.ids), (windows.vocabulary, windows.train.ids));
}

#[test]
fn a_plain_file_is_split_by_lines_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("book.txt");
    let text: String = (1..=25).map(|line| format!("line {line}\n")).collect();
    fs::write(&file, &text).unwrap();
    let corpus = Corpus::open(&file, PLAIN).unwrap();
    let shape = |split: &Split| (split.first_line, split.lines, split.ids.len());
    assert_eq!(shape(&corpus.train), (1, 20, 60));
    assert_eq!(shape(&corpus.valid), (21, 2, 6));
    assert_eq!(shape(&corpus.test), (23, 3, 9));
    assert_eq!((corpus.valid.unseen, corpus.test.unseen_types), (2, 3));
    assert_eq!(corpus.valid.sha256, sha256_hex(b"line 21\nline 22\n"));
}

#[test]
fn a_plain_file_that_cannot_be_split_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("book.txt");
    fs::write(&file, "a b\n".repeat(9)).unwrap();
    check_error(
        Corpus::from_file(&file, PLAIN),
        dir.path(),
        "DIR/book.txt: 9 lines are too few to split: 80% train, 10% valid and 10% test need 10\n  \
         try: put one sentence on each line, or give a folder with train.txt, valid.txt and test.txt",
    );
    fs::write(&file, "a b\n".repeat(16) + "\n\n" + "a b\na\n").unwrap();
    check_error(
        Corpus::from_file(&file, PLAIN),
        dir.path(),
        "DIR/book.txt: the part from line 17 to line 18 holds no words, only empty lines\n  \
         try: use a longer text, one sentence a line",
    );
}

#[test]
fn a_path_that_is_not_there_is_named() {
    check_error(
        Corpus::open(Path::new("nowhere"), PLAIN),
        Path::new("/none"),
        "nowhere: there is no such file or folder\n  \
         try: check the path; `ptb`, `wikitext-2` and `demo` are known by name",
    );
}

#[test]
fn bad_files_are_refused_by_name_and_line() {
    let cases: [([&[u8]; 3], &str); 7] = [
        ([b"", b"a\n", b"a\n"], "DIR/train.txt: the file is empty\n  try: put text in it, one sentence a line"),
        ([b"a b\n", b"a\n", b""], "DIR/test.txt: the file is empty\n  try: put text in it, one sentence a line"),
        (
            [b"a b\n", b"a\nb \xFF\n", b"a\n"],
            "DIR/valid.txt:2: not UTF-8: byte 0xFF at column 3\n  \
             try: convert the file to UTF-8, for example `iconv -f ISO-8859-1 -t UTF-8 OLD > NEW`",
        ),
        (
            [b"a a a\na\n", b"a\n", b"a\n"],
            "DIR/train.txt: the training text has only one word, `a`; there is nothing to learn\n  \
             try: use a text of at least two different words",
        ),
        (
            [b"a <unk> <eos>\na\n", b"a b\n", b"a\n"],
            "DIR/train.txt: the training text has only one word, `a`; there is nothing to learn\n  \
             try: use a text of at least two different words",
        ),
        (
            [b"\n\n", b"a\n", b"a\n"],
            "DIR/train.txt: the training text has no words; there is nothing to learn\n  \
             try: use a text of at least two different words",
        ),
        (
            [b"a b\n", b"\n", b"a\n"],
            "DIR/valid.txt: the text holds no words, only empty lines\n  try: use a longer text, one sentence a line",
        ),
    ];
    for ([train, valid, test], expected) in cases {
        let dir = folder(train, valid, test);
        check_error(Corpus::from_dir(dir.path(), PLAIN), dir.path(), expected);
    }
}

/// Sizes as the literature gives them, no unseen word, and the files that the catalog knows.
fn check_real(name: &str, words: usize, tokens: [usize; 3], lines: [usize; 3], most_frequent: [&str; 3]) {
    let Some(dir) = real(name) else { return };
    let start = Instant::now();
    let corpus = Corpus::from_dir(&dir, PLAIN).unwrap();
    eprintln!("{name} read in {:?}", start.elapsed());
    assert_eq!(corpus.vocabulary.len(), words);
    let splits = [&corpus.train, &corpus.valid, &corpus.test];
    assert_eq!(splits.map(|split| split.ids.len()), tokens);
    assert_eq!(splits.map(|split| split.lines), lines);
    assert_eq!(splits.map(|split| (split.unseen, split.unseen_types)), [(0, 0); 3]);
    assert_eq!([0, 1, 2].map(|id| corpus.vocabulary.word(id)), most_frequent);
    let counts = corpus.vocabulary.counts().unwrap();
    assert_eq!(counts.iter().sum::<u64>() as usize, tokens[0]);
    assert!(counts.is_sorted_by(|one, next| one >= next));
    assert_eq!(counts[corpus.vocabulary.eos() as usize] as usize, lines[0]);
    assert!(corpus.vocabulary.unk().is_some());

    let again = Split::read(&find_split(&dir, SplitName::Test).unwrap(), &corpus.vocabulary, false).unwrap();
    assert_eq!(again, corpus.test, "a model's vocabulary reads the same text in the same way");
    let smaller = Corpus::from_dir(&dir, CorpusOptions { vocab_size: Some(5000), ..PLAIN }).unwrap();
    assert_eq!(smaller.vocabulary.len(), 5000);
    assert_eq!(smaller.valid.ids.len(), tokens[1]);
    assert!(smaller.valid.unseen > 0 && smaller.valid.unseen_types <= smaller.valid.unseen);
}

#[test]
fn penn_treebank_has_its_known_size() {
    check_real("ptb", 10_000, [929_589, 73_760, 82_430], [42_068, 3_370, 3_761], ["the", "<unk>", "<eos>"]);
}

#[test]
fn wikitext_2_has_its_known_size() {
    check_real("wikitext-2", 33_278, [2_088_628, 217_646, 245_569], [36_718, 3_760, 4_358], ["the", ",", "."]);
}

#[test]
fn tokenized_text_hardly_changes_when_tokenized_again() {
    let Some(dir) = real("ptb") else { return };
    let text = fs::read_to_string(dir.join("ptb.test.txt")).unwrap();
    let (mut kept, mut all) = (0, 0);
    for word in text.split_whitespace() {
        let mut tokens = Vec::new();
        tokenize::for_each_token(word, |token| tokens.push(token.to_owned()));
        all += 1;
        kept += usize::from(tokens == [word.to_lowercase()]);
    }
    let share = kept as f64 / all as f64;
    eprintln!("{:.3}% of the Penn Treebank's words stay whole", 100.0 * share);
    assert!(share > 0.995, "{share}");
}
