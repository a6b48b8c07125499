//! Forms of words: plurals, verb forms, and whether a word takes "a" or "an".
//!
//! Regular forms follow the spelling rules; irregular ones stand in the word list itself: a noun as
//! `knife/knives`, a verb as `eat/ate/eating` (plain form, past, -ing form).

/// The singular of a noun of the lists.
pub(super) fn singular(noun: &str) -> String {
    noun.split('/').next().unwrap_or(noun).to_owned()
}

/// The plural of a noun of the lists.
pub(super) fn plural(noun: &str) -> String {
    match noun.split_once('/') {
        Some((_, irregular)) => irregular.to_owned(),
        None => with_s(noun),
    }
}

/// The plain form of a verb: "eat".
pub(super) fn plain(verb: &str) -> String {
    singular(verb)
}

/// The form after "she": "eats".
pub(super) fn third_person(verb: &str) -> String {
    match plain(verb).as_str() {
        "have" => "has".to_owned(),
        verb => with_s(verb),
    }
}

/// The past: "ate".
pub(super) fn past(verb: &str) -> String {
    match verb.split('/').nth(1) {
        Some(irregular) => irregular.to_owned(),
        None if verb.ends_with('e') => format!("{verb}d"),
        None => match stem_before_y(verb) {
            Some(stem) => format!("{stem}ied"),
            None => format!("{verb}ed"),
        },
    }
}

/// The -ing form: "eating".
pub(super) fn ing(verb: &str) -> String {
    match verb.split('/').nth(2) {
        Some(irregular) => irregular.to_owned(),
        None => match verb.strip_suffix('e') {
            Some(stem) if !stem.ends_with('e') => format!("{stem}ing"),
            _ => format!("{verb}ing"),
        },
    }
}

/// Whether a word is spoken with a vowel first, so that the article before it is "an".
pub(super) fn takes_an(word: &str) -> bool {
    // Written with a vowel but spoken with a "y" or "w" sound.
    const SPOKEN_CONSONANT: [&str; 7] = ["uniform", "useful", "ukulele", "university", "unicorn", "unique", "one"];
    // Written with an "h" that is silent.
    const SILENT_H: [&str; 3] = ["honest", "hour", "heir"];
    SILENT_H.contains(&word) || (word.starts_with(['a', 'e', 'i', 'o', 'u']) && !SPOKEN_CONSONANT.contains(&word))
}

fn with_s(word: &str) -> String {
    if let Some(stem) = stem_before_y(word) {
        format!("{stem}ies")
    } else if ["s", "x", "z", "ch", "sh"].iter().any(|hiss| word.ends_with(hiss)) || word == "go" || word == "do" {
        format!("{word}es")
    } else {
        format!("{word}s")
    }
}

/// For a word in consonant + "y", what stands before the "y".
fn stem_before_y(word: &str) -> Option<&str> {
    word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_follow_the_spelling_rules_or_the_list() {
        assert_eq!(
            ["dog", "box", "berry", "day", "knife/knives"].map(plural).join(" "),
            "dogs boxes berries days knives"
        );
        assert_eq!(
            ["bake", "carry", "play", "cut/cut/cutting", "wash"].map(past).join(" "),
            "baked carried played cut washed"
        );
        assert_eq!(
            ["bake", "carry", "see/saw/seeing", "dye/dyed/dyeing"].map(ing).join(" "),
            "baking carrying seeing dyeing"
        );
        assert_eq!(
            ["bake", "carry", "catch/caught/catching", "go/went/going", "have/had/having"].map(third_person).join(" "),
            "bakes carries catches goes has"
        );
    }

    #[test]
    fn articles_go_by_sound() {
        assert!(["apple", "honest", "old", "umbrella"].into_iter().all(takes_an));
        assert!(!["pear", "uniform", "useful", "house", "ukulele"].into_iter().any(takes_an));
    }
}
