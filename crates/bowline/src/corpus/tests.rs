use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use super::*;

const PLAIN: CorpusOptions = CorpusOptions {
    vocab_size: None,
    min_count: 0,
    vocabulary: None,
    extend: false,
    tokenize: false,
    ids: IdsIn::Auto,
};

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
    assert_eq!(*corpus.train_ids().unwrap(), [0, 2, 3, 1, 0, 4, 1]);
    assert_eq!(corpus.valid.ids, [0, 4, 1]);
    assert_eq!(corpus.test.ids, [2, 1, 1]);
    assert_eq!((corpus.test.lines, corpus.test.unseen, corpus.test.first_line), (2, 0, 1));
    assert_eq!(corpus.test.path, dir.path().join("test.txt"));
    assert_eq!(corpus.test.sha256, sha256_hex(b"cat\n\n"));
    assert_eq!(corpus.split(SplitName::Test).unwrap(), corpus.test);
    assert_eq!(Split::<Ids>::from(corpus.split(SplitName::Train).unwrap()), corpus.train);
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
    assert_eq!(*corpus.train_ids().unwrap(), [3, 1, 1, 0, 0, 0, 2]);
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
    assert_eq!(shape(&corpus.split(SplitName::Train).unwrap()), (1, 20, 60));
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
    assert_eq!(corpus.tokens(), tokens);
    let splits = SplitName::ALL.map(|name| corpus.split(name).unwrap());
    let splits = splits.each_ref();
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

/// Both ways to keep the ids of a training text.
fn both(path: &Path, options: &CorpusOptions) -> [Result<Corpus>; 2] {
    [IdsIn::Memory, IdsIn::File].map(|ids| Corpus::open(path, CorpusOptions { ids, ..options.clone() }))
}

#[test]
fn a_text_in_its_file_gives_the_same_words_and_ids() {
    let lines = |first: usize, n: usize| -> String {
        (first..first + n).map(|i| format!("the {} {}, Word{} x{}\n", i % 7, i % 13, i % 5, i * i % 31)).collect()
    };
    let dir = folder(lines(0, 300).as_bytes(), lines(9, 30).as_bytes(), b"the the new x3 <unk>\n\n");
    let file = dir.path().join("book.text");
    fs::write(&file, lines(3, 200)).unwrap();
    let given = Vocabulary::from_list(Path::new("list"), b"Word1\nthe\n,\nabsent\n").unwrap();
    for path in [dir.path(), &file] {
        for options in [
            PLAIN,
            CorpusOptions { tokenize: true, ..PLAIN },
            CorpusOptions { vocab_size: Some(9), ..PLAIN },
            CorpusOptions { min_count: 20, ..PLAIN },
            CorpusOptions { vocabulary: Some(given.clone()), ..PLAIN },
            CorpusOptions { vocabulary: Some(given.clone()), extend: true, vocab_size: Some(12), ..PLAIN },
        ] {
            let [memory, mut large] = both(path, &options).map(Result::unwrap);
            assert!(matches!(large.train.ids, Ids::File(_)));
            assert_eq!(
                (&memory.vocabulary, memory.vocabulary.counts()),
                (&large.vocabulary, large.vocabulary.counts())
            );
            assert_eq!((&memory.valid, &memory.test), (&large.valid, &large.test));
            let train = memory.split(SplitName::Train).unwrap();
            assert_eq!(large.split(SplitName::Train).unwrap(), train, "from the text");
            large.keep_ids(&dir.path().join("train.ids")).unwrap();
            assert_eq!(large.split(SplitName::Train).unwrap(), train, "from the file");
            let mut page = Page::default();
            for at in [0..5, 3..3, 90..200, train.ids.len() - 4..train.ids.len(), 0..train.ids.len()] {
                assert_eq!(large.train.ids.read(at.clone(), &mut page).unwrap(), &train.ids[at]);
            }
            large.train.ids.cut(10..400);
            large.train.ids.cut(5..90);
            assert_eq!(*large.train_ids().unwrap(), train.ids[15..100]);
        }
    }
}

#[test]
fn a_large_text_without_words_is_refused_as_a_small_one() {
    for (train, vocab_size) in
        [(&b"a\na\n"[..], None), (b"\n\n", None), (b"a b\n", Some(0)), (b"a\xFF\n", None), (b"", None)]
    {
        let dir = folder(train, b"a\n", b"a\n");
        let [memory, large] = both(dir.path(), &CorpusOptions { vocab_size, ..PLAIN });
        assert_eq!(memory.unwrap_err().to_string(), large.unwrap_err().to_string());
    }
}

#[test]
fn a_file_of_ids_is_made_once_and_again_when_it_is_another_texts() {
    let dir = folder(b"a b\nb c a\n", b"a\n", b"b\n");
    let path = dir.path().join("train.ids");
    let open = || {
        let mut corpus = Corpus::open(dir.path(), CorpusOptions { ids: IdsIn::File, ..PLAIN }).unwrap();
        corpus.keep_ids(&path).map(|()| corpus.train_ids().map(Cow::into_owned))
    };
    let ids = open().unwrap().unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 152 + 4 * ids.len());
    // A mark in the ids shows that the file was left as it is.
    let mut marked = bytes.clone();
    marked[152..156].copy_from_slice(&ids[1].to_le_bytes());
    fs::write(&path, &marked).unwrap();
    assert_eq!(open().unwrap().unwrap()[0], ids[1]);
    // No word has this id.
    marked[152] = 99;
    fs::write(&path, &marked).unwrap();
    let error = open().unwrap().unwrap_err().to_string();
    assert!(error.contains("train.ids: the file is damaged: 99 is no id of 4 words"), "{error}");
    for damaged in [&bytes[..bytes.len() - 1], &[&bytes[..20], b"x", &bytes[21..]].concat(), b""] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(open().unwrap().unwrap(), ids);
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    // Another text of the same words and length.
    fs::write(dir.path().join("train.txt"), "b a\nb c a\n").unwrap();
    assert_ne!(open().unwrap().unwrap(), ids);
}
