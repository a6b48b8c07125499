//! Checks of the built-in corpus as a whole: the text, the truth, and that they are of one grammar.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::automaton::{Automaton, EOS};
use super::draw::{self, Stream};
use super::phrase::{Node, Phrase, a, any, either, maybe, seq};
use super::*;

fn truth() -> &'static Truth {
    static TRUTH: OnceLock<Truth> = OnceLock::new();
    TRUTH.get_or_init(Truth::new)
}

fn default_splits() -> &'static Splits {
    static SPLITS: OnceLock<Splits> = OnceLock::new();
    SPLITS.get_or_init(|| truth().splits(DEFAULT_SEED))
}

/// Text that is in none of the splits.
fn fresh_text(tokens: usize) -> String {
    draw::text(&truth().automaton, &mut Stream::new(99, 4), tokens)
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn after(truth: &Truth, words: &str) -> Beliefs {
    words.split_whitespace().fold(truth.start(), |state, word| {
        truth.advance(&state, truth.word_index(word).unwrap()).unwrap_or_else(|| panic!("cannot say {word} in {words}"))
    })
}

fn yardstick_in_own_ids(truth: &Truth) -> Yardstick<'_> {
    Yardstick::new(truth, |word| truth.word_index(word).map(|index| index as u32), None).unwrap()
}

/// The indices of a text, `<eos>` after each line.
fn ids(truth: &Truth, text: &str) -> Vec<u32> {
    let line = |line: &str| {
        let words = line.split(' ').map(|word| truth.word_index(word).unwrap() as u32);
        words.chain([truth.eos() as u32]).collect::<Vec<u32>>()
    };
    text.lines().flat_map(line).collect()
}

#[test]
fn the_text_of_the_default_seed_is_pinned() {
    let splits = default_splits();
    let tokens = |text: &str| text.split_whitespace().count() + text.lines().count();
    assert_eq!([&splits.train, &splits.valid, &splits.test].map(|text| tokens(text)), [150008, 15001, 15003]);
    assert_eq!([&splits.train, &splits.valid, &splits.test].map(|text| text.lines().count()), [12901, 1303, 1296]);
    assert_eq!(truth().words().len(), 1940);
    assert_eq!(sha256(&splits.train), "f6a44320d04e6922e73b7ed9624c34fd6d601ea58d1981583144a6f363cc6f04");
    assert_eq!(sha256(&splits.valid), "ff355b4a1cd24d3405b40104877954d38b9ad076496567420717b0b758d546f3");
    assert_eq!(sha256(&splits.test), "68a45d5ffa987ae2d59eb9f4f3b749c869833e041be63696faef183c053753b6");
    assert_eq!(*splits, super::splits(DEFAULT_SEED));
    assert_ne!(splits.valid, truth().splits(DEFAULT_SEED + 1).valid);
}

#[test]
fn the_text_is_lower_case_english_of_moderate_sentences() {
    let splits = default_splits();
    for text in [&splits.train, &splits.valid, &splits.test] {
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            assert!((4..=24).contains(&words.len()), "{line}");
            assert!([".", "?"].contains(words.last().unwrap()), "{line}");
            for (at, word) in words.iter().enumerate() {
                let mark = [".", "?", ","].contains(word);
                assert!(mark || (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())), "{line}");
                assert!(!(mark && at + 1 < words.len() && *word != ","), "a sentence goes on after its end: {line}");
                // Twice the same word in a row would be a slip of the grammar.
                assert!(at == 0 || words[at - 1] != *word, "{line}");
                let vowel =
                    word.starts_with(['a', 'e', 'i', 'o', 'u']) && !word.starts_with("us") && !word.starts_with("uni");
                match (at > 0).then(|| words[at - 1]) {
                    Some("a") => assert!(!vowel || *word == "ukulele", "{line}"),
                    Some("an") => assert!(vowel || *word == "honest", "{line}"),
                    Some("he" | "she" | "it") => assert!(!["were", "are", "have"].contains(word), "{line}"),
                    Some("they" | "we") => assert!(!["was", "is", "has"].contains(word), "{line}"),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn every_word_occurs_in_train_and_some_are_rare() {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    default_splits().train.split_whitespace().for_each(|word| *counts.entry(word).or_default() += 1);
    let missing: Vec<&String> =
        truth().words().iter().filter(|word| *word != EOS && !counts.contains_key(word.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(counts.len() + 1, truth().words().len());
    assert!((1000..=2000).contains(&counts.len()));
    let rare = counts.values().filter(|&&count| count <= 5).count();
    assert!((50..=300).contains(&rare), "{rare}");
}

#[test]
fn every_node_of_the_automaton_is_a_distribution() {
    let automaton = &truth().automaton;
    for node in 0..automaton.node_count() {
        let edges = automaton.edges(node);
        let sum: f64 = edges.iter().map(|edge| edge.probability).sum();
        assert!((sum - 1.0).abs() < 1e-12, "node {node}: {sum}");
        assert!(edges.is_sorted_by_key(|edge| edge.word));
    }
}

#[test]
fn distributions_sum_to_one_at_every_position_of_valid() {
    let mut yardstick = yardstick_in_own_ids(truth());
    for id in ids(truth(), &default_splits().valid) {
        let sum: f64 = yardstick.distribution().iter().map(|(_, probability)| probability).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        yardstick.read(id).unwrap();
    }
}

#[test]
fn the_floor_of_the_default_seed_is_pinned() {
    let (valid, test) =
        (truth().floor(&default_splits().valid).unwrap(), truth().floor(&default_splits().test).unwrap());
    assert!((valid.perplexity() - 7.880646858538403).abs() < 1e-6, "{}", valid.perplexity());
    assert!((test.perplexity() - 7.799605203017183).abs() < 1e-6, "{}", test.perplexity());
    assert!((valid.perplexity_on_text() - 7.934685508420208).abs() < 1e-6, "{}", valid.perplexity_on_text());
    assert!((test.perplexity_on_text() - 7.7550987997167375).abs() < 1e-6, "{}", test.perplexity_on_text());
}

/// At each position the surprise of the word that comes has the exact entropy as its mean; so over a fresh text the
/// differences have mean zero within their own standard error, and a biased entropy or a generator of another grammar
/// would show.
#[test]
fn exact_entropy_is_the_mean_surprise_of_fresh_text() {
    let text = fresh_text(60_000);
    let mut yardstick = yardstick_in_own_ids(truth());
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for id in ids(truth(), &text) {
        let difference = -yardstick.probability(id).ln() - yardstick.entropy();
        sum += difference;
        squares += difference * difference;
        count += 1.0;
        yardstick.read(id).unwrap();
    }
    let (mean, error) = (sum / count, (squares / count).sqrt() / f64::sqrt(count));
    assert!(error < 0.01, "{error}");
    assert!(mean.abs() < 3.5 * error, "{mean} +- {error}");
}

/// What follows some beginnings in a large fresh text, against the exact distribution.
#[test]
fn the_generator_follows_the_truth() {
    let text = fresh_text(1_500_000);
    for prefix in ["", "the", "the old", "in the", "in january", "anna", "she", "for breakfast", "either the baker or"]
    {
        let exact = truth().distribution(&after(truth(), prefix));
        let mut seen: HashMap<usize, f64> = HashMap::new();
        let mut count = 0.0;
        for line in text.lines() {
            let rest = if prefix.is_empty() {
                Some(line)
            } else {
                line.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(' '))
            };
            if let Some(next) = rest.and_then(|rest| rest.split(' ').next()) {
                *seen.entry(truth().word_index(next).unwrap()).or_default() += 1.0;
                count += 1.0;
            }
        }
        assert!(count > 20.0, "`{prefix}` was said {count} times");
        let possible: HashSet<usize> = exact.iter().map(|&(word, _)| word).collect();
        assert!(seen.keys().all(|word| possible.contains(word)), "`{prefix}`");
        // Pearson's statistic over the words expected at least five times, the others taken together.
        let (mut statistic, mut cells, mut rest) = (0.0, 0.0, (0.0, 0.0));
        for (word, probability) in exact {
            let (expected, found) = (count * probability, seen.get(&word).copied().unwrap_or(0.0));
            if expected < 5.0 {
                rest = (rest.0 + expected, rest.1 + found);
            } else {
                statistic += (found - expected) * (found - expected) / expected;
                cells += 1.0;
            }
        }
        if rest.0 >= 5.0 {
            statistic += (rest.1 - rest.0) * (rest.1 - rest.0) / rest.0;
            cells += 1.0;
        }
        // Its mean is the degrees of freedom, its variance twice that.
        let freedom: f64 = cells - 1.0;
        assert!(
            statistic < freedom + 5.0 * (2.0 * freedom.max(1.0)).sqrt(),
            "`{prefix}`: {statistic} over {cells} cells"
        );
    }
}

/// Agreement over a distance, as the truth sees it.
#[test]
fn what_was_said_before_decides_what_can_follow() {
    let can = |prefix: &str, word: &str| {
        truth().advance(&after(truth(), prefix), truth().word_index(word).unwrap()).is_some()
    };
    for (prefix, right, wrong) in [
        ("the dog near the barn", "barks", "bark"),
        ("the dogs near the barn", "bark", "barks"),
        ("when anna came home ,", "she", "he"),
        ("when tom came home ,", "he", "she"),
        ("neither the baker", "nor", "or"),
        ("either tom", "or", "nor"),
        ("did anna wash the car", "?", "."),
        ("tomorrow anna", "will", "ate"),
        ("for breakfast anna ate", "toast", "stew"),
        ("without a rolling pin the", "baker", "carpenter"),
        ("in january anna wore her", "gloves", "sandals"),
        ("anna drove the", "car", "boat"),
    ] {
        assert!(can(prefix, right), "`{prefix} {right}` should be possible");
        assert!(!can(prefix, wrong), "`{prefix} {wrong}` should be impossible");
    }
}

/// All sentences of a phrase with their probabilities, by walking the phrase itself; articles are put in afterwards.
fn sentences_of(phrase: &Phrase) -> Vec<(Vec<String>, f64)> {
    match &*phrase.0 {
        Node::Group(group) => {
            let total: f64 = group.iter().map(|(_, weight)| weight).sum();
            group.iter().map(|(word, weight)| (vec![word.clone()], weight / total)).collect()
        }
        Node::Sequence(parts) => parts.iter().fold(vec![(Vec::new(), 1.0)], |said, part| {
            let tails = sentences_of(part);
            let join = |(head, p): &(Vec<String>, f64)| {
                tails.iter().map(|(tail, q)| ([&head[..], &tail[..]].concat(), p * q)).collect::<Vec<_>>()
            };
            said.iter().flat_map(join).collect()
        }),
        Node::Choice(parts) => {
            let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
            let part = |(weight, part): &(f64, Phrase)| {
                sentences_of(part).into_iter().map(|(words, p)| (words, p * weight / total)).collect::<Vec<_>>()
            };
            parts.iter().flat_map(part).collect()
        }
        Node::Article(phrase) => sentences_of(phrase)
            .into_iter()
            .map(|(words, p)| {
                let article = if words[0].starts_with(['a', 'o']) { "an" } else { "a" };
                ([&[article.to_owned()], &words[..]].concat(), p)
            })
            .collect(),
    }
}

/// The forward recursion against brute force, on a grammar whose words belong to several groups and whose beginnings
/// leave open for long which sentence they belong to.
#[test]
fn the_recursion_equals_the_sum_over_all_sentences() {
    let orange = any("orange apple red old");
    let grammar = either![
        3 => seq!["the", maybe(0.4, any("old orange red")), any("orange apple bark"), maybe(0.5, any("bark red fall"))],
        2 => seq![a(seq![maybe(0.3, any("old red")), &orange]), either![1 => "bark", 2 => seq!["red", "bark"], 1 => seq![]]],
        1 => seq!["the", &orange, "orange"],
        1 => seq!["the old", maybe(0.7, &orange), any("bark orange")],
    ];
    let truth = Truth::of(&grammar);
    let sentences: Vec<(Vec<String>, f64)> =
        sentences_of(&grammar).into_iter().map(|(words, p)| ([&words[..], &[EOS.to_owned()]].concat(), p)).collect();
    let mut next_words: BTreeMap<&[String], BTreeMap<&str, f64>> = BTreeMap::new();
    for (words, p) in &sentences {
        for at in 0..words.len() {
            *next_words.entry(&words[..at]).or_default().entry(&words[at]).or_default() += p;
        }
    }
    assert!(next_words.len() > 60);
    for (prefix, following) in next_words {
        let total: f64 = following.values().sum();
        let exact = truth.distribution(&after(&truth, &prefix.join(" ")));
        assert_eq!(exact.len(), following.len(), "{prefix:?}");
        for (word, probability) in exact {
            let brute = following[truth.words()[word].as_str()] / total;
            assert!((probability - brute).abs() < 1e-14, "{prefix:?}: {probability} {brute}");
        }
    }
}

#[test]
fn after_the_end_comes_the_beginning() {
    let state = after(truth(), "the soup is hot .");
    assert_eq!(truth().distribution(&state), [(truth().eos(), 1.0)]);
    assert_eq!(truth().entropy(&state), 0.0);
    assert_eq!(truth().advance(&state, truth().eos()), Some(truth().start()));
    assert_eq!(truth().advance(&truth().start(), truth().eos()), None);
    assert_eq!(truth().automaton.words[truth().eos()], EOS);
    assert_eq!(Automaton::START, 0);
}

#[test]
fn divergence_is_zero_for_the_truth_and_known_for_the_uniform_model() {
    let mut yardstick = yardstick_in_own_ids(truth());
    let size = truth().words().len() as f64;
    for id in ids(truth(), &default_splits().test).into_iter().take(2000) {
        assert!(yardstick.divergence(|id| yardstick.probability(id).ln()).abs() < 1e-14);
        let uniform = yardstick.divergence(|_| -size.ln());
        assert!((uniform - (size.ln() - yardstick.entropy())).abs() < 1e-12);
        yardstick.read(id).unwrap();
    }
    assert_eq!(yardstick.divergence(|_| f64::NEG_INFINITY), f64::INFINITY);
}

#[test]
fn words_the_reader_lacks_are_its_unk() {
    const UNK: u32 = 7;
    // The reader lacks the words of odd index, and its ids run the other way.
    let reader_id =
        |word: &str| truth().word_index(word).filter(|index| index % 2 == 0).map(|index| 10_000 - index as u32);
    let mut reader = Yardstick::new(truth(), reader_id, Some(UNK)).unwrap();
    let lacking: f64 =
        truth().distribution(&truth().start()).iter().filter(|(word, _)| word % 2 == 1).map(|(_, p)| p).sum();
    assert!(lacking > 0.0 && (reader.probability(UNK) - lacking).abs() < 1e-12);
    assert!(reader.distribution().is_sorted_by_key(|&(id, _)| id));
    let text = ids(truth(), &default_splits().test);
    for &id in text.iter().take(3000) {
        let sum: f64 = reader.distribution().iter().map(|(_, probability)| probability).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        let own = if id % 2 == 0 { 10_000 - id } else { UNK };
        assert!(reader.probability(own) > 0.0);
        reader.read(own).unwrap();
    }
}

#[test]
fn texts_of_another_grammar_are_refused() {
    let message = |text: &str| truth().floor(text).unwrap_err().to_string();
    assert_eq!(
        message("the soup is hot .\nthe soup are hot .\n"),
        "demo:2: the built-in grammar cannot say `are` here\n  try: measure against the grammar only a split of the built-in corpus"
    );
    assert!(message("the zeppelin is hot .\n").starts_with("demo:1: the built-in grammar cannot say `zeppelin` here"));
    assert!(message("the soup is\n").contains("cannot say `<eos>` here"));
    assert!(message("").contains("the text is empty"));
    let mut yardstick = yardstick_in_own_ids(truth());
    assert!(
        yardstick
            .read(truth().eos() as u32)
            .unwrap_err()
            .to_string()
            .contains("word 1 of the text (id 0) is impossible")
    );
    // A refused word leaves the yardstick where it was.
    yardstick.read(truth().word_index("the").unwrap() as u32).unwrap();
    let lacking = Yardstick::new(truth(), |word| (word == EOS).then_some(0), None).err().unwrap().to_string();
    assert!(lacking.contains("the vocabulary has neither `"), "{lacking}");
}
