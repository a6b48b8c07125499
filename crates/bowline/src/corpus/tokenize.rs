//! Plain text to words: lower-cased, and parted from its punctuation.
//!
//! The rules follow the Penn Treebank where they can without knowing the language:
//! - Every punctuation mark is a word of its own; so are a run of full stops (`...`) and one of hyphens (`--`).
//! - A hyphen, an ampersand, a full stop or an apostrophe inside a word stays: `well-known`, `at&t`, `example.com`,
//!   `o'clock`. So do the marks inside and the sign before a number: `1,000.50`, `10:30`, `-5`, `.5`.
//! - Contractions are two words: `do n't`, `ca n't`, `it 's`, `we 'll`, `can not`.
//! - `u.s.`, `e.g.`, initials (`j.`) and the abbreviations in [`ABBREVIATIONS`] keep their full stop, even at the end
//!   of a sentence, where it is lost as its end.
//! - Addresses (`https://...`, `www....`, `name@example.com`) stay whole, up to the punctuation that closes them.
//! - `<unk>` and `<eos>` stay whole.
//!
//! Lines stay lines: no attempt is made to find sentences. What has been tokenized once does not change the second time.

use crate::vocabulary::{EOS, UNK};

/// Words that keep the full stop after them.
const ABBREVIATIONS: [&str; 39] = [
    "adm", "aug", "ave", "bros", "capt", "co", "col", "corp", "cos", "dec", "dr", "etc", "feb", "gen", "gov", "inc",
    "jan", "jr", "lt", "ltd", "messrs", "mr", "mrs", "ms", "mt", "nov", "oct", "ph.d", "prof", "rep", "reps", "rev",
    "sen", "sens", "sept", "sgt", "sr", "st", "vs",
];

/// The second halves of contractions.
const ENDINGS: [&str; 7] = ["n't", "'s", "'re", "'ve", "'ll", "'d", "'m"];

/// Calls `each` with the tokens of a line.
pub(crate) fn for_each_token(line: &str, mut each: impl FnMut(&str)) {
    for chunk in line.split_whitespace() {
        if chunk.bytes().all(|byte| byte.is_ascii_lowercase()) {
            contraction(chunk, &mut each);
        } else {
            tokens_of_chunk(&chunk.to_lowercase(), &mut each);
        }
    }
}

/// Parts a lower-case text without white space.
fn tokens_of_chunk(chunk: &str, each: &mut impl FnMut(&str)) {
    let mut rest = chunk;
    while !rest.is_empty() {
        let at_start = rest.len() == chunk.len();
        let length = if let Some(special) = [UNK, EOS].into_iter().find(|special| rest.starts_with(special)) {
            special.len()
        } else if ENDINGS.contains(&rest) {
            rest.len()
        } else if let Some(length) = address(rest) {
            length
        } else if starts_word(rest, at_start) {
            let length = word(rest);
            contraction(&rest[..length], each);
            rest = &rest[length..];
            continue;
        } else {
            mark(rest)
        };
        each(&rest[..length]);
        rest = &rest[length..];
    }
}

/// Whether a word or a number starts here, sign and leading point included.
fn starts_word(rest: &str, at_start: bool) -> bool {
    let mut chars = rest.chars();
    match chars.next() {
        Some('-' | '.') => at_start && chars.next().is_some_and(|next| next.is_ascii_digit()),
        Some(first) => is_word_char(first),
        None => false,
    }
}

/// The length of the punctuation mark at the start of `rest`: one character, or a run of full stops or hyphens.
fn mark(rest: &str) -> usize {
    match rest.chars().next() {
        Some(run @ ('.' | '-')) => rest.len() - rest.trim_start_matches(run).len(),
        Some(first) => first.len_utf8(),
        None => 0,
    }
}

/// The length of the word or number at the start of `rest`; at least one character.
fn word(rest: &str) -> usize {
    let mut chars = rest.char_indices().peekable();
    // The first character belongs to it (it may be a sign or a point, see `starts_word`).
    let mut before = chars.next().map_or(' ', |(_, first)| first);
    let mut end = rest.len();
    while let Some((place, here)) = chars.next() {
        let after = chars.peek().map_or(' ', |&(_, after)| after);
        let digits = before.is_ascii_digit() && after.is_ascii_digit();
        let stays = is_word_char(here)
            || match here {
                '-' | '.' => is_word_char(before) && is_word_char(after),
                '&' | '\'' | '’' => is_word_char(before) && after.is_alphabetic(),
                ',' | ':' => digits,
                _ => false,
            };
        if !stays {
            end = place;
            break;
        }
        before = here;
    }
    let (found, after) = rest.split_at(end);
    let one_stop = after.starts_with('.') && !after.starts_with("..");
    if one_stop && (ABBREVIATIONS.contains(&found) || is_initials(found)) { end + 1 } else { end }
}

/// Single letters with full stops between them: `u.s`, `e.g`, or one alone: `j`, but not `i`, the word.
fn is_initials(word: &str) -> bool {
    let single_letter = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(char::is_alphabetic) && chars.next().is_none()
    };
    word != "i" && word.split('.').all(single_letter)
}

/// The length of the address at the start of `rest`, if there is one.
fn address(rest: &str) -> Option<usize> {
    let starts = ["http://", "https://", "ftp://", "www."];
    let is_address = starts.iter().any(|start| rest.len() > start.len() && rest.starts_with(start))
        || rest.starts_with(is_word_char)
            && rest.split_once('@').is_some_and(|(name, host)| {
                name.chars().all(|c| is_word_char(c) || ".+-".contains(c))
                    && host.starts_with(is_word_char)
                    && host.trim_end_matches(is_punctuation).contains('.')
            });
    if !is_address {
        return None;
    }
    let mut found = rest;
    while let Some(last) = found.chars().next_back() {
        let opened = found.matches('(').count() >= found.matches(')').count();
        let closes = is_punctuation(last) && !"/_-&=#%+~*".contains(last) && !(last == ')' && opened);
        if !closes {
            break;
        }
        found = &found[..found.len() - last.len_utf8()];
    }
    Some(found.len())
}

/// A word in its halves, if it is a contraction: `do` and `n't`. A curly apostrophe becomes a straight one.
fn contraction(word: &str, each: &mut impl FnMut(&str)) {
    if word.contains('’') {
        return halves(&word.replace('’', "'"), each);
    }
    halves(word, each);
}

fn halves(word: &str, each: &mut impl FnMut(&str)) {
    if word == "cannot" {
        each("can");
        return each("not");
    }
    for ending in ENDINGS {
        if let Some(stem) = word.strip_suffix(ending)
            && !stem.is_empty()
        {
            halves(stem, each);
            return each(ending);
        }
    }
    each(word);
}

/// Letters, digits, the underscore, and all that is neither punctuation nor a symbol (accents that stand alone, say).
fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || !c.is_ascii() && !is_punctuation(c) && !c.is_whitespace()
}

/// Punctuation and symbols: all of ASCII's, and the blocks of Unicode where the others live.
fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_alphanumeric() && c != '_';
    }
    !c.is_alphanumeric()
        && matches!(c,
            '\u{a1}'..='\u{bf}' | '×' | '÷' | '\u{589}' | '\u{60c}' | '\u{61b}' | '\u{61f}' | '\u{6d4}'
            | '\u{964}'..='\u{965}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{20a0}'..='\u{20cf}'
            | '\u{2190}'..='\u{22ff}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3020}' | '・'
            | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(line: &str) -> String {
        let mut tokens = Vec::new();
        for_each_token(line, |token| tokens.push(token.to_owned()));
        tokens.join(" ")
    }

    /// Also checks that the result does not change when it is tokenized again.
    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(tokens(line), expected);
        assert_eq!(tokens(expected), expected, "the second time");
    }

    #[test]
    fn words_are_lower_cased_and_parted_from_their_punctuation() {
        check("Hello, World!", "hello , world !");
        check("\"Stop,\" she said (twice); then: nothing...", "\" stop , \" she said ( twice ) ; then : nothing ...");
        check("wait--what?!", "wait -- what ? !");
        check("and/or [sic] {x}", "and / or [ sic ] { x }");
        check("  \t two   spaces\r", "two spaces");
        check("", "");
        check("--- . .. 'quoted'", "--- . .. ' quoted '");
    }

    #[test]
    fn what_is_inside_a_word_stays() {
        check(
            "A well-known state-of-the-art AT&T R&D o'clock rock'n'roll",
            "a well-known state-of-the-art at&t r&d o'clock rock'n'roll",
        );
        check("pre- and post-war snake_case", "pre - and post-war snake_case");
        check("example.com index.html", "example.com index.html");
    }

    #[test]
    fn numbers_keep_their_marks() {
        check("1,000.50, 3.14. 10:30: 5-10 -5 .5 2nd", "1,000.50 , 3.14 . 10:30 : 5-10 -5 .5 2nd");
        check("$5.00 or 5% (#1)", "$ 5.00 or 5 % ( # 1 )");
        check("1990–2000 ½ 4×4", "1990 – 2000 ½ 4 × 4");
    }

    #[test]
    fn contractions_are_two_words() {
        check(
            "Don't can't won't it's we're I've you'll he'd I'm",
            "do n't ca n't wo n't it 's we 're i 've you 'll he 'd i 'm",
        );
        check("Don’t “it’s” couldn't've cannot", "do n't “ it 's ” could n't 've can not");
        check("the dogs' tails, the dog's.", "the dogs ' tails , the dog 's .");
        check("'tis o’clock", "' tis o'clock");
    }

    #[test]
    fn abbreviations_keep_their_full_stop() {
        check("Mr. Smith vs. the U.S., e.g. at 5 a.m. Ph.D.", "mr. smith vs. the u.s. , e.g. at 5 a.m. ph.d.");
        check("J. R. Jones and I.", "j. r. jones and i .");
        check("The end. etc...", "the end . etc ...");
    }

    #[test]
    fn addresses_are_not_shattered() {
        check(
            "See https://example.com/a?b=c&d=1#e, (www.example.org/x_(y)).",
            "see https://example.com/a?b=c&d=1#e , ( www.example.org/x_(y) ) .",
        );
        check("\"http://a.b/c/\"; Jane.Doe+x@mail.example.com!", "\" http://a.b/c/ \" ; jane.doe+x@mail.example.com !");
        check("@home a@b www. http://", "@ home a @ b www . http : / /");
    }

    #[test]
    fn other_scripts_are_words_and_marks_too() {
        check("Ärger ÉTÉ «ça va»… ¿Qué?", "ärger été « ça va » … ¿ qué ?");
        check("日本、東京。 Москва́: да", "日本 、 東京 。 москва́ : да");
    }

    #[test]
    fn special_words_stay_whole() {
        check("The <unk>, <UNK>'s <eos> <b>", "the <unk> , <unk> 's <eos> < b >");
    }

    #[test]
    fn no_text_makes_it_stumble_or_lose_a_character() {
        // Every pair and triple of awkward characters: nothing but case and apostrophes may change.
        let awkward = ['a', 'I', '1', '.', '-', '\'', '’', ',', '&', '@', ':', '/', '(', ')', '<', '…', 'é', '\u{301}'];
        for &a in &awkward {
            for &b in &awkward {
                for &c in &awkward {
                    let line: String = [a, b, c, b, a].iter().collect();
                    let joined = tokens(&line);
                    let expected = line.to_lowercase().replace('’', "'");
                    assert_eq!(joined.replace(' ', "").replace('’', "'"), expected, "{line}");
                    assert!(!joined.split(' ').any(str::is_empty), "{line}");
                }
            }
        }
    }
}
