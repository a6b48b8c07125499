//! From a corpus, a speed and a time to the settings of a run.

use super::rules;
use crate::config::{Config, DataConfig};
use crate::error::Result;
use crate::recipes::Recipe;
use crate::run;
use crate::wording::{duration, grouped};

/// What follows the training (`finish.seconds`) takes a share of a short time, and less of a longer one: seconds and share.
const FINISH: f64 = 0.16;
const FINISH_LONGER: (f64, f64) = (90.0, 0.05);
const LONGEST_FINISH: f64 = 2400.0;
/// Where it fits into so large a share, there is time for dynamic evaluation: to read both splits, and to tune it on some
/// words more, each word taking so many times as long as in training.
const MOST_FINISH: f64 = 0.3;
const LEARNING: (usize, f64) = (35_000, 7.5);
/// Reading words in evaluation is so many times as fast as training on them.
pub(super) const READING: f64 = 3.0;
/// The share of the time that is kept for what nobody foresees.
pub(super) const SPARE: f64 = 0.03;
/// A shorter training text is too little for a network.
const FEWEST_WORDS: usize = 3_000;
/// A piece of a long text is worth training on from so many words on.
const PIECE: f64 = 500_000.0;
/// The speed that the first guess assumes, in operations a second.
const USUAL_SPEED: f64 = 100e9;

/// What a plan is made from.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The text and its vocabulary.
    pub data: DataConfig,
    /// Words of the three splits.
    pub words: [usize; 3],
    /// Different words.
    pub vocab: usize,
    /// The time there is, in seconds.
    pub seconds: f64,
    /// What everything random follows from.
    pub seed: u64,
    /// Settings that somebody has chosen, as `key=value`.
    pub chosen: Vec<String>,
}

/// Tells how many words a second are trained with some settings and a vocabulary of some size.
pub type Speed<'a> = &'a mut dyn FnMut(&Config, usize) -> f64;

/// What to do with the time.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Train a network.
    Network(Box<Planned>),
    /// There is not enough time, or text, for one: an n-gram model is better.
    Ngrams {
        /// Why.
        why: String,
    },
}

/// A training that was planned.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The settings.
    pub config: Config,
    /// The time for the training, in seconds, with its validations. Whole epochs come as near to it as they can.
    pub training: f64,
    /// An epoch of it.
    pub epoch: f64,
}

impl Plan {
    /// Chooses. `speed_of` is asked twice.
    pub fn new(facts: &Facts, speed_of: Speed<'_>) -> Result<Plan> {
        let [words, valid, test] = facts.words;
        let narrow = Recipe::find("narrow")?.config(None, &facts.data.source)?;
        // A setting that there is not is an error, whatever the plan.
        narrow.clone().with(&facts.chosen)?;
        if words < FEWEST_WORDS {
            let why = format!("{} words are too few to train a network", grouped(words));
            return Ok(Plan::Ngrams { why });
        }
        let mut operations = USUAL_SPEED;
        let (mut config, mut piece, mut speed) = (narrow.clone(), words, f64::INFINITY);
        let left = |finish: f64| (facts.seconds * (1.0 - SPARE) - finish).max(0.0);
        for _ in 0..2 {
            let finish = finish(facts, speed);
            // Of all words that are read, the share that is trained on. The last evaluations, with one stream, take about
            // as long as training on their words.
            let trained = f64::from(config.epochs) * words as f64;
            let read = trained + f64::from(config.epochs) * valid as f64 / READING + (valid + test) as f64;
            let training = left(finish) * trained / read;
            let Some((shape, part)) = choose(words, facts.vocab, training * operations) else {
                let why = format!("{} is too short to train a network on this text", duration(facts.seconds));
                return Ok(Plan::Ngrams { why });
            };
            let size = |key: &str, size: usize| chosen(facts, key).and_then(|x| x.parse().ok()).unwrap_or(size);
            let (units, embedding) = (size("hidden", shape.units), size("network.projection", shape.embedding));
            let mut next = rules::settings(narrow.clone(), rules::Shape { units, embedding, ..shape }, part)?;
            next.data = facts.data.clone();
            if part < words {
                next.data.train_words = part;
            }
            next.seed = facts.seed;
            (next.finish.predictor, next.finish.seconds) = (true, finish.round());
            (config, piece) = (next.with(&facts.chosen)?, part);
            run::require_memory(&config, facts.vocab)?;
            speed = speed_of(&config, facts.vocab).max(1e-9);
            operations = speed * 6.0 * config.spec(facts.vocab).products() as f64;
        }
        let epoch = (piece as f64 + valid as f64 / READING) / speed;
        // Whole epochs do not fit exactly: the nearest number to all of the time, its spare part too.
        let training = facts.seconds - config.finish.seconds - (valid + test) as f64 / speed;
        let training = training.max(0.0);
        if chosen(facts, "epochs").is_none() {
            config.epochs = (training / epoch).round().clamp(1.0, rules::MOST_EPOCHS) as u32;
        }
        Ok(Plan::Network(Box::new(Planned { config, training, epoch })))
    }
}

/// The seconds for what follows the training, on a machine that trains on `speed` words a second.
fn finish(facts: &Facts, speed: f64) -> f64 {
    let [_, valid, test] = facts.words;
    let longer = FINISH_LONGER.0 + FINISH_LONGER.1 * facts.seconds;
    let usual = (FINISH * facts.seconds).min(longer).min(LONGEST_FINISH);
    let learning = LEARNING.1 * (valid + test + LEARNING.0.min(4 * valid)) as f64 / speed;
    if learning < MOST_FINISH * facts.seconds { usual.max(learning) } else { usual }
}

/// What somebody has chosen for a setting.
fn chosen<'a>(facts: &'a Facts, key: &str) -> Option<&'a str> {
    let pairs = facts.chosen.iter().rev().filter_map(|setting| setting.split_once('='));
    pairs.map(|(name, value)| (name.trim(), value.trim())).find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// The network for a text, or for a piece of it if it is too long to be read once.
fn choose(words: usize, vocab: usize, budget: f64) -> Option<(rules::Shape, usize)> {
    if let Some(shape) = rules::shape(words, vocab, budget) {
        return Some((shape, words));
    }
    let mut piece = words as f64;
    while piece > 2.0 * PIECE {
        piece *= 0.8;
        if let Some(shape) = rules::shape(piece as usize, vocab, budget) {
            return Some((shape, piece as usize));
        }
    }
    None
}

impl Planned {
    /// What was chosen, for people.
    pub fn describe(&self, vocab: usize) -> String {
        let config = &self.config;
        let spec = config.spec(vocab);
        let plural = if config.epochs == 1 { "epoch" } else { "epochs" };
        let (unit, units) = spec.layers.first().map_or(("LSTM", 0), |layer| (layer.unit.title(), layer.units));
        let piece = match config.data.train_words {
            0 => String::new(),
            words => format!(" on the first {} words", grouped(words)),
        };
        format!(
            "plan: one {unit} of {units} units with word vectors of {} ({} parameters), {} {plural}{piece} in about {}; then \
             n-grams, cache and dynamic evaluation in about {}",
            spec.input.width,
            grouped(spec.parameters()),
            config.epochs,
            duration(self.epoch * f64::from(config.epochs)),
            duration(config.finish.seconds),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(words: usize, seconds: f64) -> Facts {
        let data = DataConfig { source: "text".to_owned(), ..DataConfig::default() };
        Facts { data, words: [words, 80_000, 80_000], vocab: 10_000, seconds, seed: 1, chosen: Vec::new() }
    }

    /// A machine that does so many operations a second, whatever the network.
    fn machine(operations: f64) -> impl FnMut(&Config, usize) -> f64 {
        move |config, vocab| operations / (6.0 * config.spec(vocab).products() as f64)
    }

    fn network(facts: &Facts, operations: f64) -> Planned {
        match Plan::new(facts, &mut machine(operations)).unwrap() {
            Plan::Network(planned) => *planned,
            Plan::Ngrams { why } => panic!("{why}"),
        }
    }

    #[test]
    fn a_plan_fills_its_time_on_machines_of_any_speed() {
        for operations in [20e9, 180e9, 2e12] {
            for minutes in [5.0, 10.0, 60.0, 180.0] {
                let facts = facts(930_000, 60.0 * minutes);
                let planned = network(&facts, operations);
                let speed = machine(operations)(&planned.config, 10_000);
                let training = f64::from(planned.config.epochs) * (930_000.0 + 80_000.0 / 3.0) / speed;
                let whole = training + 160_000.0 / speed + planned.config.finish.seconds;
                let share = whole / facts.seconds;
                // On a fast machine a long budget has more epochs than bring anything.
                let most = f64::from(planned.config.epochs) == rules::MOST_EPOCHS;
                assert!((0.9..1.1).contains(&share) || most, "{minutes} min: {share} of it, {planned:?}");
            }
        }
    }

    #[test]
    fn too_little_time_or_text_gives_n_grams_and_says_why() {
        let why = |facts: &Facts| match Plan::new(facts, &mut machine(100e9)).unwrap() {
            Plan::Ngrams { why } => why,
            Plan::Network(planned) => panic!("{planned:?}"),
        };
        assert_eq!(why(&facts(930_000, 5.0)), "5s is too short to train a network on this text");
        assert_eq!(why(&facts(2_000, 600.0)), "2,000 words are too few to train a network");
    }

    #[test]
    fn of_a_very_long_text_a_piece_is_read() {
        let planned = network(&facts(500_000_000, 600.0), 100e9);
        assert_eq!(planned.config.epochs, 1);
        assert!((500_000..500_000_000).contains(&planned.config.data.train_words), "{planned:?}");
    }

    #[test]
    fn what_somebody_has_chosen_stays() {
        let mut facts = facts(930_000, 600.0);
        facts.chosen = ["epochs=3", "masks.input=0.9"].map(str::to_owned).to_vec();
        let planned = network(&facts, 180e9);
        assert_eq!((planned.config.epochs, planned.config.masks.input.0), (3, 0.9));
        // What depends on it follows.
        facts.chosen = ["hidden=12", "network.projection=6"].map(str::to_owned).to_vec();
        let planned = network(&facts, 180e9);
        assert_eq!((planned.config.hidden, planned.config.network.rank), (12, 6));
    }
}
