//! What comes next? A *predictor* reads words and gives the distribution of the next one.
//!
//! There are two ways to use it. Step by step: [`Predictor::observe`] words, then ask for the [`Predictor::distribution`] after
//! them. Over a text: [`Predictor::target_probabilities`] gives the probability of each word, in blocks, which is much faster.
//! Both give the same numbers, use only the words before each word, and do not depend on the number of threads.
//!
//! [`Neural`] is a network: as it was trained (*static*), at a *temperature*, with a *cache* of the words that followed
//! similar states, *dynamic* (learning from what it has read), or as the average of networks with units dropped
//! (*Monte Carlo*). [`Ngram`] is an n-gram model, and [`Recency`] puts a recency cache on
//! top of any other. A [`Mixture`] joins several predictors, its *members*. A linear mixture needs of each member the
//! probabilities of the text's own words alone, so that its weights can be found from these vectors without running the
//! members again ([`em`]).

mod body;
mod check;
mod dynamic;
mod em;
mod ensemble;
mod history;
mod mixture;
mod monte_carlo;
mod neural;
mod ngram_predictor;
mod recency;
pub mod recency_cache;
mod settings;
mod shipped;
mod statistics;
mod table;
#[cfg(test)]
mod tests;
mod tune;
mod tuned;

pub use check::{check_logprobs, is_logprob};
pub use em::{Fit, em};
pub use ensemble::Ensemble;
pub use history::CacheGrid;
pub use mixture::{Mix, Mixture, check_weights};
pub use neural::{Neural, Source, Streams};
pub use ngram_predictor::Ngram;
pub use recency::Recency;
pub use settings::{CacheSettings, DynamicForm, DynamicSettings, MonteCarloSettings, NeuralSettings, short};
pub use shipped::{NGRAMS, Perplexities, Reads, Shipped, Way};
pub use statistics::{GradientScale, fingerprint};
pub use table::{PredictorRow, PredictorTable};
pub use tune::{Found, Tuner, perplexity};
pub use tuned::{TunedMixture, TunedSettings};

use std::any::Any;
use std::sync::Arc;

/// What a predictor knew at one place of a text. Only predictors of the same making can read it.
pub type Snapshot = Arc<dyn Any + Send + Sync>;

/// What is inside a snapshot of a predictor of the same making.
fn inside<T: 'static>(snapshot: &Snapshot) -> &T {
    snapshot.downcast_ref().expect("a snapshot belongs to predictors of the same making")
}

/// What reads words and says what comes next. Before [`Predictor::distribution`] is asked for, one word at least must have
/// been read; usually that is the `<eos>` before a sentence.
pub trait Predictor: Send {
    /// Words in the vocabulary.
    fn vocab(&self) -> usize;

    /// Forgets all that was read.
    fn reset(&mut self);

    /// Reads words that follow those read before.
    fn observe(&mut self, words: &[u32]);

    /// The same, given up in the middle as soon as `stop` says so: then it is false, and what was read is not known.
    fn observe_until(&mut self, words: &[u32], stop: &dyn Fn() -> bool) -> bool {
        words.chunks(body::BLOCK).all(|words| {
            let goes_on = !stop();
            if goes_on {
                self.observe(words);
            }
            goes_on
        })
    }

    /// The distribution of the next word, (V) into `out`.
    fn distribution(&mut self, out: &mut [f32]);

    /// Reads all words of `ids` but the last, and gives the probability of each but the first, given those before it (and
    /// what was read earlier). Given up, without a result, as soon as `stop` says so.
    fn target_probabilities(&mut self, ids: &[u32], stop: &dyn Fn() -> bool) -> Option<Vec<f64>>;

    /// What it knows now, to be gone back to.
    fn snapshot(&mut self) -> Snapshot;

    /// Goes back to where it, or one like it, was when it gave out a snapshot.
    fn restore(&mut self, snapshot: &Snapshot);

    /// Reads `words` and gives the distribution after each of them, (words, V) into `out`.
    fn distributions(&mut self, words: &[u32], out: &mut [f32]) {
        for (word, out) in words.iter().zip(out.chunks_exact_mut(self.vocab())) {
            self.observe(std::slice::from_ref(word));
            self.distribution(out);
        }
    }
}
