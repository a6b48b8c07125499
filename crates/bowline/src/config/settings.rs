//! What `bowline settings` shows: every setting that `--set` takes, in groups, with its meaning.

use super::Config;
use super::set::default_of;

/// A setting as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// What it belongs to.
    pub group: &'static str,
    /// The name that `--set` takes.
    pub key: String,
    /// Its value here.
    pub value: String,
    /// What it does.
    pub meaning: &'static str,
}

type Group = (&'static str, &'static [(&'static str, &'static str)]);

const GROUPS: [Group; 11] = [
    (
        "network",
        &[
            ("model", "vd-lstm, al, re or real"),
            ("size", "the preset that the values come from: small, medium or large"),
            ("hidden", "units in each LSTM layer and in a word vector"),
            ("layers", "LSTM layers"),
            ("keep", "probability that dropout keeps a unit; 1 drops nothing"),
            ("init", "weights start uniformly within plus or minus this"),
            ("classifier_init", "the same for the classifier's own matrix; 0 for `init`"),
            ("unit_vectors", "keep every word vector at length 1"),
        ],
    ),
    (
        "training",
        &[
            ("seed", "decides everything random"),
            ("batch", "streams side by side"),
            ("shards", "equal groups of streams whose gradients are added in order, so that ranks can share them"),
            ("unroll", "steps of back-propagation through time"),
            ("epochs", "passes over the training text"),
            ("second_training_epochs", "epochs of a second training with the schedule reset; 0 for none"),
            ("learning_rate", "learning rate of the first epochs"),
            ("decay", "factor on the learning rate for each epoch after `decay_after`"),
            ("decay_after", "the last epoch at the full rate"),
            ("clip", "largest global norm of a gradient"),
            ("weight_decay", "how strongly every weight is pulled towards 0"),
            ("spare_vectors", "exclude the word vectors from weight decay"),
            ("average", "the model is the mean of the weights over this share of the steps; 0 for the last weights"),
            ("select", "which epoch's weights are kept: best or last"),
            ("patience", "stop after this many epochs without a better validation perplexity; 0 never stops early"),
            ("validation_streams", "streams when validating during training; final figures use one"),
            ("precision", "what operands of matrix products are rounded to: f32, bf16 or bf16-emulated"),
        ],
    ),
    (
        "parts of the network",
        &[
            ("network.unit", "lstm, gru, rnn, highway, deep or mogrifier"),
            ("network.activation", "for rnn and deep: tanh, sigmoid or relu"),
            ("network.coupled", "for lstm and mogrifier: the coupled input gate min(1 - f, i)"),
            ("network.depth", "for highway: levels of a step"),
            ("network.rounds", "for mogrifier: how often input and state gate each other before a step"),
            ("network.rank", "for mogrifier: the rank of the matrices between them"),
            ("network.direct", "word vectors are added to the first layer's gates, without a matrix"),
            ("network.widths", "units of each layer, from below; empty for `layers` times `hidden`"),
            ("network.embedding", "size of a word vector; 0 for the classifier's if tied, else `hidden`"),
            ("network.projection", "width of a projection under the classifier; 0 for none"),
            ("network.projection_activation", "linear, tanh, sigmoid or relu"),
            ("network.projection_bias", "give the projection a bias"),
            ("network.tied", "let the classifier reuse the word vectors (re and real do)"),
            ("network.bias", "give the classifier a bias"),
            ("network.pointer", "words that a pointer beside the classifier looks back on; 0 for no pointer"),
            ("network.sum_layers", "let the classifier see the sum of all layers, not the last one"),
            ("network.softmaxes", "softmaxes that are mixed, each with a projection of its own"),
            ("network.topics", "give the network the topics of the last words as features"),
            ("network.context", "words that are read side by side, instead of by layers that remember; 0 for one"),
            ("network.classes", "classes of the words, each of which is predicted by its class first; 0 for none"),
            ("network.sum_product", "powers of each word's polynomial in a sum-product network; 0 for a softmax"),
            ("network.characters.symbols", "rows of the table of characters; rarer characters share one"),
            ("network.characters.length", "characters of a word with its start and end; longer words are cut"),
            ("network.characters.width", "size of a character vector"),
            (
                "network.characters.maps",
                "maps of the convolutions of width 1, 2, ...; empty: words have vectors of their own",
            ),
            ("network.characters.highways", "layers of the highway above the convolutions"),
            ("start.fan_in", "weights start normally distributed with variance 1 / fan-in, not by `init`"),
            ("start.biases", "biases start at random too, not at 0"),
            ("start.forget_bias", "the first bias of an LSTM's forget gates"),
            ("start.transform_bias", "the first bias of a highway's transform gates"),
            ("start.model", "a model whose weights are taken instead (`--init`)"),
            ("start.model_sha256", "what tells those weights from others; filled in"),
        ],
    ),
    (
        "dropout by site",
        &[
            ("masks.word", "keep probability of whole words, by type; 1 drops nothing, here and below"),
            ("masks.input", "of word vectors"),
            ("masks.state", "of a layer's state on its way to its own next step"),
            ("masks.between", "of a layer's output on its way to the layer above"),
            ("masks.output", "of the last layer's output"),
            ("masks.projection", "of the projection's output"),
            ("masks.weights", "of the recurrent matrices' elements (weight drop)"),
            ("masks.each_step", "sites whose masks are drawn at every step; the others are held for a window"),
            ("masks.per_gate", "of input, state and between: sites with a mask for each gate; the others share one"),
        ],
    ),
    (
        "optimiser and schedule",
        &[
            ("optimizer.kind", "sgd, adam or asgd"),
            ("optimizer.beta1", "for adam: share of the mean gradient that stays; may be 0"),
            ("optimizer.beta2", "for adam: share of the mean squared gradient that stays"),
            ("optimizer.epsilon", "for adam: added to the root of the mean square"),
            ("optimizer.decoupled", "for adam: decay beside the step, not through the gradient"),
            ("optimizer.trigger", "for asgd: epochs without a gain before averaging begins"),
            ("schedule.kind", "decay (the paper's), steps, plateau, cosine or one-cycle"),
            ("schedule.warm_up", "steps in which the rate rises to its first value"),
            ("schedule.constant", "for cosine and one-cycle: share of the steps before the rate falls"),
            ("schedule.at", "for steps: the last epochs at their rate"),
            ("schedule.factor", "for steps and plateau: factor on the rate"),
            (
                "schedule.gain",
                "for plateau: what counts as a gain in perplexity over the epoch before; 0: any over the best",
            ),
            ("schedule.patience", "for plateau: epochs without a gain before the rate falls"),
        ],
    ),
    (
        "streams and activity",
        &[
            ("streams.offset", "begin at another word in every epoch"),
            ("streams.reset", "probability that a stream forgets its state before a window"),
            ("streams.random_length", "windows of random length, as in AWD-LSTM"),
            ("activity.ar", "weight of the mean square of the last layer's output"),
            ("activity.tar", "weight of the mean square of its change from step to step"),
            ("loss.sampled", "learn from about so many words drawn for each window, and its targets; 0 for all words"),
        ],
    ),
    (
        "topics",
        &[
            ("topics.count", "how many there are"),
            ("topics.window", "words that the features look back on"),
            ("topics.sentences", "sentences of a document"),
            ("topics.sweeps", "sweeps over the training text to find them"),
            ("topics.shrinkage", "occurrences with the topics of all words that are added to those of a word"),
            ("topics.smoothing", "what is added to probabilities before their logarithm is taken"),
            ("topics.sharpness", "factor on the logarithm: how sure of its topics a text is"),
        ],
    ),
    (
        "data",
        &[
            ("data.source", "ptb, wikitext-2, demo, or a path"),
            ("data.vocab_size", "keep this many words; 0 keeps all"),
            ("data.min_count", "words seen less often than this become <unk>"),
            ("data.vocabulary", "a file with the words to use, one a line"),
            ("data.extend", "add the words of the training text to those of that file"),
            ("data.tokenize", "lower-case the text and split words from punctuation"),
            ("data.ids", "where the training text's ids are kept: memory, file, or auto (a file above 64 MB of text)"),
            ("data.train_start", "learn from the training text from this word on"),
            ("data.train_words", "and from this many words; 0 for all the rest"),
            ("data.valid_words", "validate on this many words; 0 for all"),
        ],
    ),
    (
        "augmented loss",
        &[
            ("augment.tau", "temperature"),
            ("augment.gamma", "weight: alpha = gamma tau"),
            ("augment.gradient", "whether the gradient flows through the target: flow or stop"),
            ("augment.form", "exact, or gram for the second-order approximation"),
            ("augment.loss", "sum, or mixture as in the theory experiment"),
            ("augment.beta", "share of the augmented loss in the mixture"),
            ("augment.target", "embedding, teacher, or truth on the built-in corpus"),
            ("augment.teachers", "the teachers' folders, as `--teacher` gives them"),
            ("augment.teachers_sha256", "hashes of their weights, filled in by the program"),
            ("augment.begin", "the training with which it begins: first or second"),
        ],
    ),
    (
        "after the training",
        &[
            ("finish.predictor", "fit n-grams, a cache and dynamic evaluation as the model's own way of predicting"),
            ("finish.seconds", "approximate time for that; what does not fit is left out"),
        ],
    ),
    ("checkpoints", &[("checkpoint.every_seconds", "seconds between checkpoints; 0 writes one after every step")]),
];

impl Config {
    /// Every setting that `--set` takes, with its value here.
    pub fn settings(&self) -> Vec<Setting> {
        let known = GROUPS
            .iter()
            .flat_map(|&(group, settings)| settings.iter().map(move |&(key, meaning)| (group, key, meaning)));
        let of = |(group, key, meaning): (&'static str, &'static str, &'static str)| {
            Some(Setting { group, key: key.to_owned(), value: default_of(self, key)?, meaning })
        };
        known.filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::set::names_of;
    use super::super::{ModelKind, Size, preset};
    use super::*;

    #[test]
    fn every_setting_is_explained_and_none_that_is_not_there() {
        let config = preset(Size::Small, ModelKind::Real, "ptb");
        let mut there = names_of(&config);
        there.retain(|name| !["version", "origin"].contains(&name.as_str()));
        let mut shown: Vec<String> = config.settings().into_iter().map(|setting| setting.key).collect();
        let listed: usize = GROUPS.iter().map(|(_, settings)| settings.len()).sum();
        assert_eq!(shown.len(), listed, "a setting that is explained does not exist");
        there.sort_unstable();
        shown.sort_unstable();
        assert_eq!(shown, there, "explain new settings in config/settings.rs");
        let keep = config.settings().into_iter().find(|setting| setting.key == "keep").unwrap();
        assert_eq!((keep.value.as_str(), keep.group), ("0.7", "network"));
    }
}
