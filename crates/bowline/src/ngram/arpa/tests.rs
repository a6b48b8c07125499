//! Round trips, files of other tools, and a table of broken files.

use super::super::tests::{Dice, text};
use super::*;
use crate::ngram::NgramModel;
use crate::vocabulary::Vocabulary;
use std::fs;
use std::path::Path;

fn vocabulary(words: u32) -> Vocabulary {
    let mut text: String =
        (0..words - 1).map(|id| if id == 2 { "<unk>\n".to_owned() } else { format!("w{id}\n") }).collect();
    text.push_str("<eos>\n");
    Vocabulary::from_text(Path::new("vocab.txt"), text.as_bytes()).unwrap()
}

fn model(order: usize) -> (NgramModel, Vocabulary) {
    (NgramModel::train(&text(3, 200, 30), 30, 29, order).unwrap().0, vocabulary(30))
}

fn written(model: &NgramModel, vocabulary: &Vocabulary) -> String {
    let mut bytes = Vec::new();
    write(model, vocabulary, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn parsed(text: &str) -> crate::Result<(NgramModel, Vocabulary)> {
    parse(Path::new("m.arpa"), text.as_bytes())
}

#[test]
fn what_is_written_is_read_back_to_the_bit() {
    for order in [1, 2, 3, 5] {
        let (model, vocabulary) = model(order);
        let text = written(&model, &vocabulary);
        let (again, words) = parsed(&text).unwrap();
        assert_eq!(words, vocabulary);
        assert!(again == model, "order {order}");
        assert_eq!(written(&again, &words), text);
    }
}

#[test]
fn compressed_files_too() {
    let (model, vocabulary) = model(3);
    let dir = tempfile::tempdir().unwrap();
    let (plain, compressed) = (dir.path().join("m.arpa"), dir.path().join("m.arpa.gz"));
    save(&plain, &model, &vocabulary).unwrap();
    save(&compressed, &model, &vocabulary).unwrap();
    assert!(fs::metadata(&compressed).unwrap().len() * 2 < fs::metadata(&plain).unwrap().len());
    assert!(fs::read(&compressed).unwrap().starts_with(&[0x1f, 0x8b]));
    for path in [&plain, &compressed] {
        assert!(read(path).unwrap().0 == model);
    }
    // Cut off anywhere, it is an error and not a smaller model.
    let bytes = fs::read(&compressed).unwrap();
    for cut in [0, 1, 5, 100, bytes.len() / 2, bytes.len() - 9, bytes.len() - 1] {
        fs::write(&compressed, &bytes[..cut]).unwrap();
        let message = read(&compressed).unwrap_err().to_string();
        assert!(message.contains("m.arpa.gz:") && message.contains("\n  try: "), "{cut}: {message}");
    }
    assert!(read(&dir.path().join("none")).unwrap_err().to_string().contains("none: cannot read: "));
}

#[test]
fn a_word_with_a_meaning_in_arpa_files_is_refused() {
    let (model, _) = model(2);
    let words = vocabulary(30).to_text().replace("w7\n", "</s>\n");
    let words = Vocabulary::from_text(Path::new("vocab.txt"), words.as_bytes()).unwrap();
    let message = save(Path::new("m.arpa"), &model, &words).unwrap_err().to_string();
    assert!(message.starts_with("m.arpa: the model has `</s>` as an ordinary word"), "{message}");
}

/// As SRILM writes it: an empty line first, tabs, back-off weights left out where nothing follows.
const SRILM: &str = "\n\\data\\\nngram 1=5\nngram 2=5\nngram 3=2\n\n\
    \\1-grams:\n-0.6020600\t</s>\n-99\t<s>\t-0.3010300\n-0.6020600\t<unk>\n-0.6020600\ta\t-0.3010300\n\
    -0.6020600\tb\t-0.1760913\n\n\
    \\2-grams:\n-0.3010300\t<s> a\t-0.1\n-0.9\t<s> b\n-0.3010300\ta b\t-0.2\n-0.6020600\tb </s>\n-0.6\tb a\n\n\
    \\3-grams:\n-0.1249387\t<s> a b\n-0.1760913\ta b </s>\n\n\\end\\\n";

#[test]
fn back_off_is_done_by_the_book() {
    let (model, words) = parsed(SRILM).unwrap();
    assert_eq!(words.words().collect::<Vec<_>>(), ["<eos>", "<unk>", "a", "b"]);
    assert_eq!((model.order(), model.ngrams(), model.eos()), (3, vec![4, 5, 2], 0));
    let half = std::f64::consts::LOG10_2;
    let log = |context: &[u32], word| model.probability(context, word).log10();
    for (context, word, expected) in [
        (&[0, 2][..], 3, -0.1249387),        // <s> a b, as it stands
        (&[2, 3], 0, -0.1760913),            // a b </s>
        (&[0], 2, -half),                    // <s> a
        (&[0, 2], 0, -0.1 - half - 0.60206), // b(<s> a) b(a) p(</s>)
        (&[3], 0, -0.60206),                 // b </s>
        (&[2, 3], 2, -0.2 - 0.6),            // b(a b) p(a | b)
        (&[0, 3], 2, -0.6),                  // no weight after `<s> b`: 1
        (&[1], 2, -0.60206),                 // no weight after `<unk>`: 1
        (&[3, 2], 2, -half - 0.60206),       // `b a` is a context without weight; then b(a) p(a)
        (&[2, 0], 2, -half),                 // a new sentence forgets the last
    ] {
        assert!((log(context, word) - expected).abs() < 1e-6, "{context:?} {word}: {}", log(context, word));
    }
}

#[test]
fn legitimate_differences_are_read() {
    let expected = parsed(SRILM).unwrap();
    let same = |text: String| assert!(parsed(&text).unwrap() == expected, "{text}");
    same(SRILM.replace('\t', " "));
    same(SRILM.replace('\t', "   "));
    same(SRILM.replace('\n', "\r\n"));
    same(SRILM.replace('\n', " \n"));
    same(SRILM.trim_end().to_owned());
    same(SRILM.replace("\n\n\\", "\n\\"));
    same(format!("a comment: ngram 1=7\n{SRILM}\n\n"));
    same(SRILM.replace("ngram 2=5", "ngram  2 = 5"));
    same(SRILM.replace("<unk>", "<UNK>"));
    same(SRILM.replace("-99\t", "-inf\t"));
    same(SRILM.replace("-0.1249387\t<s> a b", "-0.1249387\t<s> a b\t0"));
    same(SRILM.replace("-0.9\t<s> b\n", "").replace("-0.6\tb a\n", "-0.6\tb a\n-0.9\t<s> b\n"));
    // Without <unk>; and with a suffix, `a b`, that was pruned away.
    let without = SRILM.replace("-0.6020600\t<unk>\n", "").replace("ngram 1=5", "ngram 1=4");
    assert_eq!(parsed(&without).unwrap().1.unk(), None);
    let pruned = SRILM.replace("-0.3010300\ta b\t-0.2\n", "").replace("ngram 2=5", "ngram 2=4");
    let pruned = pruned.replace("-0.1760913\ta b </s>\n", "").replace("ngram 3=2", "ngram 3=1");
    let (model, _) = parsed(&pruned).unwrap();
    assert!((model.probability(&[0, 2], 3).log10() + 0.1249387).abs() < 1e-6);
    // The largest numbers that are no numbers of ours.
    let (model, _) = parsed(&SRILM.replace("-0.9\t", "-120\t").replace("-0.6\tb a", "-50\tb a")).unwrap();
    assert_eq!(model.probability(&[0], 3), 0.0);
    assert!(model.probability(&[3], 2) > 0.0);
}

#[test]
fn broken_files_are_refused_at_their_line() {
    let anew = "write the file again with the tool that made it, or restore it from a copy";
    let cut = "the end of the file seems to be missing: copy it again";
    for (old, new, line, problem, advice) in [
        (
            "\\data\\",
            "\\date\\",
            25,
            "there is no line `\\data\\`: this is not an ARPA file",
            "a file that SRILM, KenLM or `bowline arpa write` has written",
        ),
        ("ngram 1=5", "ngram 1 5", 3, "`ngram 1 5` is not a line like `ngram 1=10000`", anew),
        ("ngram 1=5", "ngram 1=-5", 3, "`ngram 1=-5` is not a line like `ngram 1=10000`", anew),
        ("ngram 1=5\n", "", 3, "`ngram 2` is there instead of `ngram 1`", anew),
        ("ngram 2=5", "ngram 4=5", 4, "`ngram 4` is there instead of `ngram 2`", anew),
        ("ngram 1=5", "ngram 1=99999999999", 3, "99999999999 n-grams are more than this program reads", anew),
        ("ngram 1=5\nngram 2=5\nngram 3=2\n", "", 4, "no line `ngram 1=...` says how many n-grams there are", anew),
        ("\\1-grams:", "\\2-grams:", 7, "`\\2-grams:` is there instead of `\\1-grams:`", anew),
        ("\\2-grams:", "\\3-grams:", 14, "`\\3-grams:` is there instead of `\\2-grams:`", anew),
        ("\\3-grams:", "\\3-gram:", 21, "`\\3-gram:` is there instead of `\\3-grams:`", anew),
        (
            "ngram 1=5",
            "ngram 1=6",
            13,
            "the line is empty, after 5 of the 6 1-grams that the head of the file announces",
            anew,
        ),
        ("ngram 1=5", "ngram 1=4", 12, "`-0.6020600\\tb\\t-0.1760913` is there instead of `\\2-grams:`", anew),
        ("ngram 2=5", "ngram 2=3", 18, "`-0.6020600\\tb </s>` is there instead of `\\3-grams:`", anew),
        (
            "ngram 3=2",
            "ngram 3=1",
            23,
            "`-0.1760913\\ta b </s>` is there instead of `\\end\\`: are these more n-grams than the head of the file announces?",
            anew,
        ),
        ("-0.6020600\ta\t-0.3010300", "-0.60x\ta\t-0.30", 11, "the probability `-0.60x` is not a number", anew),
        ("-0.6020600\ta\t-0.3010300", "nan\ta\t-0.30", 11, "the probability `nan` is not a number", anew),
        (
            "-0.6020600\ta\t-0.3010300",
            "0.5\ta\t-0.30",
            11,
            "the probability 0.5 is above 1: its logarithm is positive",
            anew,
        ),
        ("-0.6020600\ta\t-0.3010300", "-0.6\ta\tb", 11, "the back-off weight `b` is not a number", anew),
        ("-0.6020600\ta\t-0.3010300", "-0.6\ta\t50", 11, "the back-off weight 50 is too large", anew),
        (
            "-0.6020600\ta\t-0.3010300",
            "-0.6\ta b c",
            11,
            "there are 4 fields; a 1-gram has a probability, 1 word and perhaps a back-off weight",
            anew,
        ),
        (
            "-0.6020600\ta\t-0.3010300",
            "-0.6",
            11,
            "there are 1 fields; a 1-gram has a probability, 1 word and perhaps a back-off weight",
            anew,
        ),
        ("-0.6020600\ta\t-0.3010300", "-0.6\ta\u{a0}b", 11, "the word `a\\u{a0}b` contains white space", anew),
        ("\tb\t-0.1760913", "\ta\t-0.1760913", 12, "`a` is there twice", anew),
        ("\t<unk>\n", "\t</s>\n", 10, "`</s>` is there twice", anew),
        ("\t<unk>\n", "\t<s>\n", 10, "`<s>` is there twice", anew),
        (
            "\t<unk>\n",
            "\t<eos>\n",
            10,
            "the word `<eos>` is this program's name for `</s>`",
            "rename `<eos>` in the file, or train on a text without it",
        ),
        (
            "-0.6020600\t</s>\n-99\t<s>",
            "-0.6020600\tx\n-99\t<s>",
            12,
            "the single words above do not have `</s>`",
            "make the model with a tool that marks the beginnings and ends of sentences",
        ),
        (
            "-99\t<s>\t-0.3010300",
            "-99\tx\t-0.3010300",
            12,
            "the single words above do not have `<s>`",
            "make the model with a tool that marks the beginnings and ends of sentences",
        ),
        ("\ta b\t-0.2", "\ta c\t-0.2", 17, "the word `c` is not among the single words", anew),
        ("\ta b\t-0.2", "\tb a\t-0.2", 19, "this n-gram is a duplicate, first on line 17", anew),
        ("\ta b\t-0.2", "\ta <s>\t-0.2", 17, "`<s>` stands where no sentence can begin", anew),
        ("\ta b\t-0.2", "\t</s> b\t-0.2", 17, "`</s>` stands where no sentence can end", anew),
        ("\ta b </s>", "\tb b </s>", 23, "its context `b b` is not among the 2-grams", anew),
        ("\t<s> a b\n", "\t<s> a b\t-0.5\n", 22, "the longest n-grams have no back-off weights", anew),
        (
            "\\end\\",
            "\\ende\\",
            25,
            "`\\ende\\` is there instead of `\\end\\`: are these more n-grams than the head of the file announces?",
            anew,
        ),
        ("\\end\\", "", 25, "the file ends here, before the line `\\end\\`", cut),
        ("\\end\\\n", "\\end\\\nmore\n", 26, "`more` comes after `\\end\\`", anew),
    ] {
        let text = SRILM.replacen(old, new, 1);
        assert_ne!(text, SRILM, "{old}");
        let message = parsed(&text).unwrap_err().to_string();
        assert_eq!(message, format!("m.arpa:{line}: {problem}\n  try: {advice}"), "{old} -> {new}");
    }
    let message = |bytes: &[u8]| parse(Path::new("m.arpa"), bytes).unwrap_err().to_string();
    assert!(message(b"").starts_with("m.arpa:1: there is no line `\\data\\`"));
    assert!(
        message(b"\\data\\\nngram 1=2\n\n\\1-grams:\n-1\tna\xEFve\n").starts_with("m.arpa:5: the line is not UTF-8")
    );
    assert!(message(&[b'x'; 2_000_000]).starts_with("m.arpa:1: the line has more than 1048576 bytes"));
    let many: String = (1..=10).map(|k| format!("ngram {k}=1\n")).collect();
    assert_eq!(
        message(format!("\\data\\\n{many}").as_bytes()),
        "m.arpa:11: n-grams of 10 words are longer than this program reads\n  try: use a model of order 9 or lower"
    );
}

#[test]
fn a_file_cut_off_after_any_line_is_refused() {
    let (model, words) = model(3);
    let text = written(&model, &words);
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let step = ends.len() / 400 + 1;
    for (line, &end) in ends.iter().enumerate().rev().skip(1) {
        // All lines of the head and around the ends of sections; of the others a few hundred.
        if line > 40 && line + 5 < ends.len() && line % step != 0 {
            continue;
        }
        let message = parsed(&text[..end]).unwrap_err().to_string();
        assert!(message.starts_with(&format!("m.arpa:{}: ", line + 1)), "{line}: {message}");

        assert!(message.contains("before ") && message.ends_with(": copy it again"), "{message}");
    }
    for at in 1..SRILM.len() - "\\end\\\n".len() {
        assert!(parsed(&SRILM[..at]).is_err(), "{at}");
    }
}

#[test]
fn no_change_of_bytes_makes_it_panic() {
    let mut dice = Dice(11);
    let interesting = b"\\\n\t -+.=0123456789e<>/sunk:grams\xFF\0";
    let (mut good, mut bad) = (0, 0);
    for _ in 0..6000 {
        let mut bytes = SRILM.as_bytes().to_vec();
        for _ in 0..1 + dice.below(4) {
            let at = dice.below(bytes.len());
            let byte = interesting[dice.below(interesting.len())];
            match dice.below(4) {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => {
                    let end = (at + dice.below(30)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    let to = dice.below(bytes.len());
                    bytes.splice(to..to, part);
                }
            }
        }
        match parse(Path::new("m.arpa"), bytes.as_slice()) {
            Ok((model, words)) => {
                good += 1;
                // What was read can be used.
                let mut out = vec![0.0; words.len()];
                for word in 0..words.len() as u32 {
                    assert!(model.probability(&[words.eos(), word], word) >= 0.0);
                    model.distribution(&[word, word], &mut out);
                }
            }
            Err(error) => {
                bad += 1;
                let message = error.to_string();
                assert!(message.starts_with("m.arpa:") && message.contains("\n  try: "), "{message}");
            }
        }
    }
    assert!(good > 300 && bad > 300, "{good} {bad}");
}

/// Compressed bytes of a text that is `piece` again and again.
fn packed(piece: &[u8], times: usize) -> tempfile::NamedTempFile {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut out = flate2::write::GzEncoder::new(&mut file, flate2::Compression::best());
    (0..times).for_each(|_| out.write_all(piece).unwrap());
    out.finish().unwrap();
    file
}

#[test]
fn a_small_file_that_unpacks_to_nothing_useful_is_given_up_soon() {
    let problem = |file: &tempfile::NamedTempFile| read(file.path()).unwrap_err().to_string();
    // Before the head, between sections, and as one line after the other of spaces.
    let newlines = packed(&[b'\n'; 1 << 16], 2_000);
    assert!(problem(&newlines).contains(":10001: there is no line `\\data\\`"), "{}", problem(&newlines));
    let spaces = packed(&[b' '; 1 << 16], 2_000);
    assert!(problem(&spaces).contains("the line has more than"), "{}", problem(&spaces));
    let mut text = b"\\data\\\nngram 1=3\n".to_vec();
    text.extend([b'\n'; 1 << 16]);
    // Something that does not pack well, so that the file is not given up for what it unpacks to.
    text.extend((0..4_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 1));
    let gap = packed(&text, 1);
    assert!(problem(&gap).contains("10000 empty lines"), "{}", problem(&gap));
    let mut line = vec![b'x'; 1 << 16];
    line.push(b'\n');
    let long = packed(&line, 5_000);
    assert!(problem(&long).contains("it unpacks to more than 200 times its size"), "{}", problem(&long));
}
