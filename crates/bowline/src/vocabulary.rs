//! Words and their ids.
//!
//! A *word* is what stands between two white spaces of the corpus; punctuation counts as words of its own. Two words
//! are special: [`EOS`] ends every line, and [`UNK`] stands for every word that the vocabulary does not have.
//! The *vocabulary* numbers the words of the training text from 0, the most frequent first; words equally frequent keep
//! the order in which they first appear, so that the same text always gives the same ids.
//!
//! Every vocabulary has `<eos>`. It has `<unk>` only where there is a use for it: the training text contains it, a
//! limit on the size cuts words off, or the validation or test text has words that the training text lacks. A word more
//! that never occurs would only take probability away from the others.

mod tokens;

use std::collections::HashMap;
use std::path::Path;

use crate::storage::files;
use crate::{Error, Result};

/// A `vocab.txt` has not more bytes than this.
const LONGEST: u64 = 1 << 30;

/// The end of a line.
pub const EOS: &str = "<eos>";

/// Any word that is not in the vocabulary.
pub const UNK: &str = "<unk>";

/// The smallest limit that makes sense: `<eos>`, `<unk>` and one word.
const SMALLEST_LIMIT: usize = 3;

const SAVED_VOCABULARY: &str = "use the vocab.txt that was saved with the model";

/// The words of a corpus or a model, numbered.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// The word of each id. No word is there twice, none is empty or holds white space.
    words: Vec<Box<str>>,
    /// The inverse of `words`.
    ids: HashMap<Box<str>, u32>,
    /// How often each word stands in the training text, where that is known. As long as `words`.
    counts: Option<Vec<u64>>,
    eos: u32,
    unk: Option<u32>,
}

/// Two vocabularies are the same if they give the same ids to the same words.
impl PartialEq for Vocabulary {
    fn eq(&self, other: &Vocabulary) -> bool {
        self.words == other.words
    }
}

impl Eq for Vocabulary {}

impl Vocabulary {
    /// The id of a word, if the vocabulary has it. What to do with a word that it has not is for the caller to say:
    /// see [`Vocabulary::unk`].
    pub fn id(&self, word: &str) -> Option<u32> {
        self.ids.get(word).copied()
    }

    /// The word of an id.
    ///
    /// # Panics
    /// If `id` is not below [`Vocabulary::len`]; ids come from this vocabulary or from a model of its size.
    pub fn word(&self, id: u32) -> &str {
        &self.words[id as usize]
    }

    /// All words in the order of their ids.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &str> {
        self.words.iter().map(|word| &**word)
    }

    /// Number of words, `<eos>` and (where it is there) `<unk>` included.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Never true: there is always `<eos>`.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The id of `<eos>`.
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// The id of `<unk>`, if the vocabulary has it.
    pub fn unk(&self) -> Option<u32> {
        self.unk
    }

    /// How often each word stands in the training text, by id; words cut off count for `<unk>`. `None` for a
    /// vocabulary that was read from a file, which does not keep them.
    pub fn counts(&self) -> Option<&[u64]> {
        self.counts.as_deref()
    }

    /// The text of `vocab.txt`: one word a line, in the order of the ids.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.words.iter().map(|word| word.len() + 1).sum());
        for word in &self.words {
            text.push_str(word);
            text.push('\n');
        }
        text
    }

    /// Reads a `vocab.txt`.
    pub fn read(path: &Path) -> Result<Vocabulary> {
        let bytes = files::read(path, LONGEST)?;
        Vocabulary::from_text(path, &bytes)
    }

    /// The vocabulary in the bytes of a `vocab.txt`; `path` is for the messages. Strict, since a word lost or shifted
    /// by a line would give every later word the vector of another.
    pub fn from_text(path: &Path, bytes: &[u8]) -> Result<Vocabulary> {
        let text = text_of(path, bytes, SAVED_VOCABULARY)?;
        let (words, ids) = read_words(path, &lines(text), SAVED_VOCABULARY)?;
        let unk = ids.get(UNK).copied();
        match ids.get(EOS).copied() {
            Some(eos) => Ok(Vocabulary { words, ids, counts: None, eos, unk }),
            None => Err(Error::corpus(
                path,
                format!("the word `{EOS}` is missing; every vocabulary has it"),
                SAVED_VOCABULARY,
            )),
        }
    }

    /// The vocabulary of a list of words that somebody made, one a line, or of a recogniser's tokens with their ids: `<eos>` and
    /// `<unk>` are added where they are missing.
    pub fn from_list(path: &Path, bytes: &[u8]) -> Result<Vocabulary> {
        let (mut words, mut ids) = read_list(path, bytes)?;
        let mut place = |special: &str| match ids.get(special) {
            Some(&id) => id,
            None => {
                let id = words.len() as u32;
                words.push(special.into());
                ids.insert(special.into(), id);
                id
            }
        };
        let (eos, unk) = (place(EOS), Some(place(UNK)));
        Ok(Vocabulary { words, ids, counts: None, eos, unk })
    }

    /// Reads such a list, with which a model of another program came: nothing is added, and there must be an end of a sentence.
    pub fn read_foreign(path: &Path) -> Result<Vocabulary> {
        let (words, ids) = read_list(path, &files::read(path, LONGEST)?)?;
        let unk = ids.get(UNK).copied();
        match ids.get(EOS).copied() {
            Some(eos) => Ok(Vocabulary { words, ids, counts: None, eos, unk }),
            None => Err(Error::corpus(
                path,
                format!("the word `{EOS}` is missing, and so are `{}`", tokens::ENDS.join("` and `")),
                format!("call the word that begins and ends the model's sentences `{EOS}`"),
            )),
        }
    }

    /// These words, and after them those of a text that are not among them, the most frequent first: at least `min_count` times
    /// there, and no more than `limit` words in all. `words` are all words of the text, which has each `counts` times.
    pub(crate) fn extended(mut self, words: &[&str], counts: &[u64], limit: usize, min_count: u64) -> Vocabulary {
        let new = |number: &usize| self.id(words[*number]).is_none() && counts[*number] >= min_count.max(1);
        let mut chosen: Vec<usize> = (0..words.len()).filter(new).collect();
        chosen.sort_by_key(|&number| (std::cmp::Reverse(counts[number]), number));
        for number in chosen.into_iter().take(limit.saturating_sub(self.len())) {
            self.ids.insert(words[number].into(), self.words.len() as u32);
            self.words.push(words[number].into());
        }
        self
    }

    /// The same vocabulary with the counts of a training text.
    pub(crate) fn with_counts(self, counts: Vec<u64>) -> Vocabulary {
        Vocabulary { counts: Some(counts), ..self }
    }

    /// The vocabulary of a corpus whose splits together hold `words` (in the order of their first appearance, train
    /// first), each `counts` times in the training text, `<eos>` among them at least once. `limit` is the largest
    /// number of words to keep, `<eos>` and `<unk>` included; words seen less than `min_count` times go too.
    ///
    /// Also returns what became of each of `words`.
    pub(crate) fn choose(
        words: &[&str],
        counts: &[u64],
        limit: Option<usize>,
        min_count: u64,
    ) -> Result<(Vocabulary, Vec<Choice>)> {
        if let Some(limit) = limit
            && limit < SMALLEST_LIMIT
        {
            return Err(Error::config(
                "vocab_size",
                format!("{limit} is too small: `{EOS}`, `{UNK}` and at least one word must have room"),
                format!("a value of at least {SMALLEST_LIMIT}; the usual ones are thousands"),
            ));
        }
        let limit = limit.unwrap_or(usize::MAX);
        let place = |special: &str| words.iter().position(|word| *word == special);
        let (eos, unk) = (place(EOS), place(UNK));
        let seen = counts.iter().filter(|&&count| count > 0).count();
        let rare = |word: usize| counts[word] < min_count && Some(word) != eos && Some(word) != unk;
        let needs_unk = unk.is_some() || seen < words.len() || seen > limit || (0..words.len()).any(rare);

        let mut regular: Vec<usize> =
            (0..words.len()).filter(|&word| counts[word] > 0 && Some(word) != eos && Some(word) != unk).collect();
        regular.sort_by_key(|&word| (std::cmp::Reverse(counts[word]), word));
        let room = limit - 1 - usize::from(needs_unk);
        // The rarest stand last.
        let frequent = regular.partition_point(|&word| !rare(word));
        let cut = regular.split_off(room.min(frequent));

        // (count, order among equals, the word of the corpus it is); an added special word comes after all others.
        let mut chosen: Vec<(u64, usize, Option<usize>, &str)> =
            regular.into_iter().map(|word| (counts[word], word, Some(word), words[word])).collect();
        let special = |place: Option<usize>| (place.map_or(0, |word| counts[word]), place.unwrap_or(usize::MAX), place);
        let (count, order, word) = special(eos);
        chosen.push((count, order, word, EOS));
        if needs_unk {
            let (count, order, word) = special(unk);
            chosen.push((count + cut.iter().map(|&word| counts[word]).sum::<u64>(), order, word, UNK));
        }
        chosen.sort_by_key(|&(count, order, _, _)| (std::cmp::Reverse(count), order));

        let mut vocabulary = Vocabulary { words: Vec::new(), ids: HashMap::new(), counts: None, eos: 0, unk: None };
        for (id, &(_, _, _, spelling)) in chosen.iter().enumerate() {
            let id = id as u32;
            match spelling {
                EOS => vocabulary.eos = id,
                UNK => vocabulary.unk = Some(id),
                _ => {}
            }
            vocabulary.words.push(spelling.into());
            vocabulary.ids.insert(spelling.into(), id);
        }
        // Where there is no `<unk>`, no word is left out, and this id is overwritten for all of them.
        let left_out = Choice { id: vocabulary.unk.unwrap_or(vocabulary.eos), left_out: true };
        let mut choices = vec![left_out; words.len()];
        for (id, &(_, _, word, _)) in chosen.iter().enumerate() {
            if let Some(word) = word {
                choices[word] = Choice { id: id as u32, left_out: false };
            }
        }
        vocabulary.counts = Some(chosen.iter().map(|&(count, ..)| count).collect());
        Ok((vocabulary, choices))
    }
}

/// Words, and the id of each.
type Words = (Vec<Box<str>>, HashMap<Box<str>, u32>);

/// The words of a list, or the tokens with their ids. Where there is no `<eos>`, what others call so is it.
fn read_list(path: &Path, bytes: &[u8]) -> Result<Words> {
    const ADVICE: &str = "one word a line, each once";
    let text = text_of(path, bytes, ADVICE)?;
    let (mut words, mut ids) = if tokens::has_ids(text) {
        read_words(path, &tokens::read(path, text)?, "each token once")?
    } else {
        read_words(path, &lines(text), ADVICE)?
    };
    if !ids.contains_key(EOS)
        && let Some(id) = tokens::ENDS.iter().find_map(|end| ids.remove(*end))
    {
        words[id as usize] = EOS.into();
        ids.insert(EOS.into(), id);
    }
    Ok((words, ids))
}

/// Bytes that must be UTF-8, and not nothing.
fn text_of<'a>(path: &Path, bytes: &'a [u8], advice: &str) -> Result<&'a str> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (line, problem) = not_utf8(bytes, error.valid_up_to());
        Error::corpus_line(path, line, problem, advice)
    })?;
    if text.is_empty() {
        return Err(Error::corpus(path, "the vocabulary is empty", advice));
    }
    Ok(text)
}

/// The lines of a text, without what `str::lines` forgives.
fn lines(text: &str) -> Vec<&str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n').collect()
}

/// The words that the lines of a file are, and the line of each, from 0; `advice` is for the messages.
fn read_words(path: &Path, lines: &[&str], advice: &str) -> Result<Words> {
    let fail = |line: usize, problem: String| Err(Error::corpus_line(path, line, problem, advice));
    let mut words: Vec<Box<str>> = Vec::new();
    let mut ids = HashMap::new();
    for (index, &word) in lines.iter().enumerate() {
        let line = index + 1;
        if word.is_empty() {
            return fail(line, "the line is empty; each line must hold one word".to_owned());
        }
        if word.contains(char::is_whitespace) {
            return fail(line, format!("the word `{}` contains white space", word.escape_debug()));
        }
        if let Some(first) = ids.insert(Box::from(word), index as u32) {
            return fail(line, format!("the word `{word}` is there twice, first on line {}", first + 1));
        }
        words.push(word.into());
    }
    Ok((words, ids))
}

/// What becomes of a word of the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its id, or that of `<unk>`.
    pub id: u32,
    /// Whether it is `<unk>`'s because the vocabulary does not have the word.
    pub left_out: bool,
}

/// Where (line, counted from 1) and why `bytes` are not UTF-8, given how many of them are.
pub(crate) fn not_utf8(bytes: &[u8], valid_up_to: usize) -> (usize, String) {
    let valid = &bytes[..valid_up_to];
    let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
    let column = 1 + valid.iter().rev().take_while(|&&byte| byte != b'\n').count();
    let byte = bytes.get(valid_up_to).copied().unwrap_or_default();
    (line, format!("not UTF-8: byte 0x{byte:02X} at column {column}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(text: &str, unseen: &[&str], limit: Option<usize>) -> Vocabulary {
        choose_frequent(text, unseen, limit, 0)
    }

    fn choose_frequent(text: &str, unseen: &[&str], limit: Option<usize>, min_count: u64) -> Vocabulary {
        let mut words: Vec<&str> = Vec::new();
        let mut counts: Vec<u64> = Vec::new();
        for word in text.split(' ') {
            match words.iter().position(|known| *known == word) {
                Some(place) => counts[place] += 1,
                None => {
                    words.push(word);
                    counts.push(1);
                }
            }
        }
        for &word in unseen {
            words.push(word);
            counts.push(0);
        }
        Vocabulary::choose(&words, &counts, limit, min_count).unwrap().0
    }

    fn words(vocabulary: &Vocabulary) -> Vec<&str> {
        vocabulary.words().collect()
    }

    #[test]
    fn ids_fall_with_frequency_and_ties_keep_the_order_of_appearance() {
        let vocabulary = choose("d b a <eos> b c a <eos> b", &[], None);
        assert_eq!(words(&vocabulary), ["b", "a", "<eos>", "d", "c"]);
        assert_eq!(vocabulary.counts(), Some(&[3, 2, 2, 1, 1][..]));
        assert_eq!((vocabulary.id("c"), vocabulary.id("e")), (Some(4), None));
        assert_eq!((vocabulary.eos(), vocabulary.unk(), vocabulary.len()), (2, None, 5));
        assert_eq!(vocabulary.word(3), "d");
    }

    #[test]
    fn unk_is_there_only_where_it_has_a_use() {
        assert_eq!(choose("a b <eos>", &[], None).unk(), None);
        assert_eq!(choose("a b <eos>", &[], Some(3)).unk(), None, "nothing is cut");
        assert_eq!(choose("a <unk> <eos>", &[], None).unk(), Some(1), "the text has it");
        assert_eq!(words(&choose("a b <eos>", &["c"], None)), ["a", "b", "<eos>", "<unk>"], "unseen: last");
        assert_eq!(words(&choose("a a b c <eos> <eos>", &[], Some(3))), ["a", "<eos>", "<unk>"], "cut");
    }

    #[test]
    fn the_limit_counts_the_special_words_and_unk_takes_over_the_counts_cut_off() {
        let vocabulary = choose("a b b c c c <eos> d d d d", &[], Some(4));
        assert_eq!(words(&vocabulary), ["d", "c", "<unk>", "<eos>"]);
        assert_eq!(vocabulary.counts(), Some(&[4, 3, 3, 1][..]));
        // Without the unseen word, four words would fit; with it `<unk>` needs a place, and `b` must go.
        assert_eq!(words(&choose("a a b c c <eos>", &[], Some(4))), ["a", "c", "b", "<eos>"]);
        assert_eq!(words(&choose("a a b c c <eos>", &["e"], Some(4))), ["a", "c", "<eos>", "<unk>"]);
    }

    #[test]
    fn words_seen_too_rarely_become_unk_and_train_it() {
        let vocabulary = choose_frequent("a b b c c c <eos> d", &[], None, 2);
        assert_eq!(words(&vocabulary), ["c", "b", "<unk>", "<eos>"]);
        assert_eq!(vocabulary.counts(), Some(&[3, 2, 2, 1][..]), "<unk> has the counts of a and d");
        assert_eq!(words(&choose_frequent("a a b b <eos>", &[], None, 2)), ["a", "b", "<eos>"], "nothing is rare");
        assert_eq!(words(&choose_frequent("a a b b b c <eos>", &[], Some(3), 2)), ["b", "<unk>", "<eos>"], "both cut");
    }

    #[test]
    fn a_list_of_words_becomes_a_vocabulary() {
        let list = |text: &str| Vocabulary::from_list(Path::new("words"), text.as_bytes());
        assert_eq!(words(&list("the\ncat\n").unwrap()), ["the", "cat", "<eos>", "<unk>"]);
        assert_eq!(words(&list("<unk>\nthe\n<eos>\n").unwrap()), ["<unk>", "the", "<eos>"]);
        let error = list("the\nthe\n").unwrap_err().to_string();
        assert!(error.starts_with("words:2: the word `the` is there twice, first on line 1\n"), "{error}");
    }

    #[test]
    fn the_tokens_of_a_recogniser_keep_their_ids() {
        let list = |text: &str| Vocabulary::from_list(Path::new("tokens.txt"), text.as_bytes());
        let vocabulary = list("<blk> 0\n<sos/eos> 1\n<unk>\t2\n▁THE 3\r\n7 4\n").unwrap();
        assert_eq!(words(&vocabulary), ["<blk>", "<eos>", "<unk>", "▁THE", "7"]);
        assert_eq!((vocabulary.eos(), vocabulary.unk(), vocabulary.id("▁THE")), (1, Some(2), Some(3)));
        // An `<eos>` of its own is preferred; without any end, it comes after the recogniser's tokens.
        assert_eq!(list("</s> 0\n<eos> 1\n<unk> 2").unwrap().eos(), 1);
        assert_eq!(words(&list("<s> 0\n</s> 1\nA 2\n").unwrap()), ["<s>", "<eos>", "A", "<unk>"]);
        assert_eq!(words(&list("<blk> 0\nA 1\n").unwrap()), ["<blk>", "A", "<eos>", "<unk>"]);
        assert_eq!(words(&list("<blank>\n<unk>\nA\n<sos/eos>\n").unwrap()), ["<blank>", "<unk>", "A", "<eos>"]);
    }

    #[test]
    fn tokens_with_wrong_ids_are_refused_with_their_line() {
        let ids = "\n  try: a token and its id on each line, from 0 without a gap, as in the recogniser's tokens.txt";
        let cases = [
            ("a 0\nb 2\nc 1\n", ":2: the id of `b` is 2, but the next one is 1", ids),
            ("a 1\nb 0\n", ":1: the id of `a` is 1, but the next one is 0", ids),
            ("a 0\nb 1\nc 1\n", ":3: the id 1 of `c` is there twice, first for `b`", ids),
            ("a 0\nb 1\na 2\n", ":3: the word `a` is there twice, first on line 1", "\n  try: each token once"),
            ("a 0\nb one\n", ":2: `one` is not an id, a whole number from 0", ids),
            ("a 0\nb -1\n", ":2: `-1` is not an id, a whole number from 0", ids),
            ("a 0\n 1\n", ":2: there is one field; a token of white space alone has no place in a text", ids),
            ("a 0\nb c 1\n", ":2: there are 3 fields, not a token and its id", ids),
            ("a 0\n\nb 1\n", ":2: there are 0 fields, not a token and its id", ids),
        ];
        for (text, problem, advice) in cases {
            let error = Vocabulary::from_list(Path::new("tokens.txt"), text.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, format!("tokens.txt{problem}{advice}"));
        }
    }

    #[test]
    fn a_limit_without_room_is_refused() {
        let error = Vocabulary::choose(&["a", EOS], &[1, 1], Some(2), 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "setting `vocab_size`: 2 is too small: `<eos>`, `<unk>` and at least one word must have room\n  \
             try: a value of at least 3; the usual ones are thousands"
        );
    }

    #[test]
    fn the_file_gives_back_the_same_ids() {
        let vocabulary = choose("the Ångström <unk> <eos> the 日本", &["x"], None);
        let text = vocabulary.to_text();
        assert_eq!(text, "the\nÅngström\n<unk>\n<eos>\n日本\n");
        let again = Vocabulary::from_text(Path::new("vocab.txt"), text.as_bytes()).unwrap();
        assert_eq!(again, vocabulary);
        assert_eq!((again.eos(), again.unk(), again.counts()), (3, Some(2), None));
        assert_eq!(again.id("日本"), Some(4));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        assert_eq!(Vocabulary::read(file.path()).unwrap(), vocabulary);
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_line() {
        let message = |bytes: &[u8]| Vocabulary::from_text(Path::new("m/vocab.txt"), bytes).unwrap_err().to_string();
        let advice = "\n  try: use the vocab.txt that was saved with the model";
        let cases: [(&[u8], &str); 7] = [
            (b"", "m/vocab.txt: the vocabulary is empty"),
            (b"a\n\n<eos>\n", "m/vocab.txt:2: the line is empty; each line must hold one word"),
            (b"\n", "m/vocab.txt:1: the line is empty; each line must hold one word"),
            (b"a\n<eos>\nb\na\n", "m/vocab.txt:4: the word `a` is there twice, first on line 1"),
            (b"a\n<eos>\r\n", "m/vocab.txt:2: the word `<eos>\\r` contains white space"),
            (b"a\nb\n", "m/vocab.txt: the word `<eos>` is missing; every vocabulary has it"),
            (b"a\n<eos>\nna\xEFve\n", "m/vocab.txt:3: not UTF-8: byte 0xEF at column 3"),
        ];
        for (bytes, problem) in cases {
            assert_eq!(message(bytes), format!("{problem}{advice}"));
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Vocabulary::read(Path::new("nowhere/vocab.txt")).unwrap_err();
        assert!(error.to_string().starts_with("nowhere/vocab.txt: cannot read: "), "{error}");
    }
}
