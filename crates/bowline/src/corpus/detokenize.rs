//! Words back to text as people write it: what [`tokenize`](super::tokenize) parted is joined again, and sentences and `i`
//! have their capitals. Which letters were capitals in names is lost.

/// Joins the words of a text, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    /// Whether the next word needs no space before it: it is the first, or an opening mark stands before it.
    joined: bool,
    /// Whether a quotation is open.
    quoted: bool,
    /// Whether the next word begins a sentence.
    begins: bool,
}

impl Detokenizer {
    /// At the beginning of a line, or after a text that ends with `before`.
    pub fn new(before: &str) -> Detokenizer {
        let before = before.trim_end();
        let begins = before.is_empty() || before.ends_with(['.', '!', '?']);
        Detokenizer { joined: before.is_empty(), quoted: false, begins }
    }

    /// What the next word adds to the text.
    pub fn next(&mut self, word: &str) -> String {
        let closes = matches!(word, "," | "." | ";" | ":" | "!" | "?" | ")" | "]" | "%" | "..." | "''" | "n't")
            || (word.starts_with('\'') && word.len() > 1)
            || (word == "\"" && self.quoted);
        let opens = matches!(word, "(" | "[" | "$" | "#" | "``") || (word == "\"" && !self.quoted);
        if word == "\"" {
            self.quoted = !self.quoted;
        }
        let space = if self.joined || closes { "" } else { " " };
        self.joined = opens;
        let letters = word.chars().any(char::is_alphabetic);
        let capital = (self.begins && letters && !word.starts_with('<')) || word == "i";
        if letters || word.chars().any(|c| c.is_ascii_digit()) {
            self.begins = false;
        }
        self.begins |= matches!(word, "." | "!" | "?");
        let word = match word {
            "``" | "''" => "\"".to_owned(),
            _ if capital => capitalised(word),
            _ => word.to_owned(),
        };
        format!("{space}{word}")
    }
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::super::for_each_word_of_line;
    use super::*;

    fn joined(words: &str) -> String {
        let mut text = Detokenizer::new("");
        words.split(' ').map(|word| text.next(word)).collect()
    }

    #[test]
    fn words_become_text() {
        assert_eq!(joined("i do n't know , he said ."), "I don't know, he said.");
        assert_eq!(joined("it 's 5 % ( or $ 10 ) ! why ? so ..."), "It's 5% (or $10)! Why? So...");
        assert_eq!(joined("\" yes , \" she said . \" no . \""), "\"Yes,\" she said. \"No.\"");
        assert_eq!(joined("<unk> and i"), "<unk> and I");
        assert_eq!(Detokenizer::new("he said").next("."), ".");
        assert_eq!(Detokenizer::new("he said").next("so"), " so");
    }

    #[test]
    fn what_was_tokenized_comes_back() {
        for line in
            ["You can't win, they said; don't try!", "Well, it's \"done\" (I think).", "We'll see: 1,000.50 or so?"]
        {
            let mut words = Vec::new();
            for_each_word_of_line(line, true, |word| words.push(word.to_owned()));
            assert_eq!(joined(&words.join(" ")), line);
        }
    }
}
