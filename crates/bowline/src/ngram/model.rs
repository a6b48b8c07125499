//! A model in back-off form, as a trie of sorted arrays.
//!
//! *Level* `k` holds the n-grams of `k` words, each a *node* with a number. The nodes of level `k` are sorted by the node
//! of their first `k - 1` words (their *parent*) and then by their last word, so that the children of a node stand
//! together: all words that were seen after a context, with their probabilities. On level 1 a node's number is its
//! word's id.
//!
//! While a text is read, the nodes of its last 1, 2, .. words are known: they are the [`NgramState`]. One search among the
//! children of each gives both the probability of the next word and the nodes of the state after it.

/// The longest n-grams a model may have.
pub const MAX_ORDER: usize = 9;

/// In a state: the model does not have the n-gram.
pub(super) const NONE: u32 = u32::MAX;

/// The n-grams of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Level {
    /// The last word of each node.
    pub words: Vec<u32>,
    /// `p(last word | the words before it)` of each node.
    pub probabilities: Vec<f32>,
    /// The back-off weight of each node as a context. Empty on the last level.
    pub backoffs: Vec<f32>,
    /// The children of node `i` are the nodes `first[i] .. first[i + 1]` of the next level. Empty on the last level.
    pub first: Vec<u32>,
}

/// An n-gram model in back-off form.
#[derive(Clone, Debug, PartialEq)]
pub struct NgramModel {
    eos: u32,
    /// At least one; the first has a node for each word of the vocabulary.
    levels: Vec<Level>,
}

/// What a model remembers of the words before: the n-grams of the last 1, 2, .. words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NgramState {
    /// Of the last `k` words at `k - 1`; `NONE` where the model does not have that n-gram, or the sentence is shorter.
    nodes: [u32; MAX_ORDER - 1],
}

impl NgramState {
    /// The same with no more than the last `words` words.
    pub(super) fn up_to(mut self, words: usize) -> NgramState {
        self.nodes[words..].fill(NONE);
        self
    }
}

impl NgramModel {
    /// A model from its levels, whose invariants the caller has seen to.
    pub(super) fn from_levels(eos: u32, levels: Vec<Level>) -> NgramModel {
        debug_assert!(!levels.is_empty() && levels.len() <= MAX_ORDER);
        NgramModel { eos, levels }
    }

    pub(super) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Length of the longest n-grams.
    pub fn order(&self) -> usize {
        self.levels.len()
    }

    /// Words in the vocabulary.
    pub fn vocab(&self) -> usize {
        self.levels[0].words.len()
    }

    /// The id of `<eos>`.
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// How many n-grams of each length there are, from 1 to the order.
    pub fn ngrams(&self) -> Vec<usize> {
        self.levels.iter().map(|level| level.words.len()).collect()
    }

    /// Stored probabilities and back-off weights.
    pub fn parameters(&self) -> usize {
        self.levels.iter().map(|level| level.probabilities.len() + level.backoffs.len()).sum()
    }

    /// Bytes of memory that the model takes.
    pub fn bytes(&self) -> usize {
        let of = |l: &Level| l.words.len() + l.probabilities.len() + l.backoffs.len() + l.first.len();
        4 * self.levels.iter().map(of).sum::<usize>()
    }

    /// The state with nothing before it, not even the beginning of a sentence.
    pub fn empty(&self) -> NgramState {
        NgramState { nodes: [NONE; MAX_ORDER - 1] }
    }

    /// The state at the beginning of a sentence.
    pub fn start(&self) -> NgramState {
        let mut state = self.empty();
        if self.order() > 1 {
            state.nodes[0] = self.eos;
        }
        state
    }

    /// The state after some words. What stands before the last `<eos>` among them counts for nothing; words without an
    /// `<eos>` before them stand in the middle of a sentence.
    pub fn state(&self, context: &[u32]) -> NgramState {
        let sentence = context.iter().rposition(|&word| word == self.eos).map_or(0, |at| at);
        let used = &context[sentence.max(context.len().saturating_sub(self.order() - 1))..];
        let mut state = self.empty();
        for &word in used {
            self.step(&mut state, word);
        }
        state
    }

    /// `p(word | context)`, the context being as [`NgramModel::state`] has it.
    ///
    /// # Panics
    /// If an id is not below [`NgramModel::vocab`], as everywhere here.
    pub fn probability(&self, context: &[u32], word: u32) -> f64 {
        self.probability_after(&self.state(context), word)
    }

    /// `p(word | state)`.
    pub fn probability_after(&self, state: &NgramState, word: u32) -> f64 {
        let mut backoff = 1.0;
        for length in (1..self.order()).rev() {
            let node = state.nodes[length - 1];
            if node == NONE {
                continue;
            }
            if let Some(child) = self.child(length, node, word) {
                return backoff * f64::from(self.levels[length].probabilities[child as usize]);
            }
            backoff *= f64::from(self.levels[length - 1].backoffs[node as usize]);
        }
        backoff * f64::from(self.levels[0].probabilities[word as usize])
    }

    /// Length of the longest n-gram of the model that ends with `word` after this state.
    pub fn matched(&self, state: &NgramState, word: u32) -> usize {
        let has = |&length: &usize| {
            let node = state.nodes[length - 1];
            node != NONE && self.child(length, node, word).is_some()
        };
        1 + (1..self.order()).rev().find(has).unwrap_or(0)
    }

    /// `p(word | state)`, and the state goes on to after the word.
    pub fn step(&self, state: &mut NgramState, word: u32) -> f64 {
        let (mut backoff, mut found) = (1.0, None);
        let mut after = [NONE; MAX_ORDER - 1];
        for length in (1..self.order()).rev() {
            let node = state.nodes[length - 1];
            if node == NONE {
                continue;
            }
            match self.child(length, node, word) {
                Some(child) => {
                    if length + 1 < self.order() {
                        after[length] = child;
                    }
                    let probability = f64::from(self.levels[length].probabilities[child as usize]);
                    found.get_or_insert(backoff * probability);
                }
                None => backoff *= f64::from(self.levels[length - 1].backoffs[node as usize]),
            }
        }
        let probability = found.unwrap_or_else(|| backoff * f64::from(self.levels[0].probabilities[word as usize]));
        if word == self.eos {
            *state = self.start();
        } else {
            if self.order() > 1 {
                after[0] = word;
            }
            state.nodes = after;
        }
        probability
    }

    /// The probabilities of all words after a context, (V).
    pub fn distribution(&self, context: &[u32], out: &mut [f32]) {
        self.distribution_after(&self.state(context), out);
    }

    /// The probabilities of all words after a state, (V): those of single words, scaled by all back-off weights, and
    /// over them from the shortest context to the longest the words that were seen after it.
    pub fn distribution_after(&self, state: &NgramState, out: &mut [f32]) {
        // The product of the back-off weights of all contexts longer than `length`, at `length`.
        let mut scales = [1.0f64; MAX_ORDER];
        for length in (1..self.order()).rev() {
            let node = state.nodes[length - 1];
            let backoff = if node == NONE { 1.0 } else { f64::from(self.levels[length - 1].backoffs[node as usize]) };
            scales[length - 1] = scales[length] * backoff;
        }
        let scale = scales[0] as f32;
        for (p, &single) in out.iter_mut().zip(&self.levels[0].probabilities) {
            *p = scale * single;
        }
        for (at, (&node, &scale)) in state.nodes.iter().zip(&scales[1..]).enumerate() {
            if node == NONE {
                continue;
            }
            let (children, level, scale) = (self.children(at + 1, node), &self.levels[at + 1], scale as f32);
            for (&word, &p) in level.words[children.clone()].iter().zip(&level.probabilities[children]) {
                out[word as usize] = scale * p;
            }
        }
    }

    /// `-log p` of every word of `ids` after the first, in order, as [`crate::eval::Evaluator::nll`] gives it: the first
    /// word is read as the first of a sentence, and not predicted.
    pub fn nll(&self, ids: &[u32]) -> Vec<f64> {
        let mut state = self.start();
        let mut nll: Vec<f64> = ids.iter().map(|&word| -self.step(&mut state, word).ln()).collect();
        if !nll.is_empty() {
            nll.remove(0);
        }
        nll
    }

    /// The nodes of level `length + 1` whose first `length` words are the node's.
    pub(super) fn children(&self, length: usize, node: u32) -> std::ops::Range<usize> {
        let first = &self.levels[length - 1].first;
        first[node as usize] as usize..first[node as usize + 1] as usize
    }

    /// The words that the model has seen after the last `length` words of a state.
    pub(super) fn words_after(&self, length: usize, state: &NgramState) -> &[u32] {
        match state.nodes[length - 1] {
            NONE => &[],
            node => &self.levels[length].words[self.children(length, node)],
        }
    }

    /// Replaces the back-off weights of the contexts of `length` words.
    pub(super) fn set_backoffs(&mut self, length: usize, backoffs: Vec<f32>) {
        debug_assert_eq!(backoffs.len(), self.levels[length - 1].words.len());
        self.levels[length - 1].backoffs = backoffs;
    }

    /// The node of level `length + 1` that goes on from this one with a word.
    pub(super) fn child(&self, length: usize, node: u32, word: u32) -> Option<u32> {
        child_of(&self.levels[length - 1], &self.levels[length].words, node, word)
    }
}

/// The child of a node of `level` that ends in `word`; `next` are the last words of the level's children.
pub(super) fn child_of(level: &Level, next: &[u32], node: u32, word: u32) -> Option<u32> {
    let (start, end) = (level.first[node as usize] as usize, level.first[node as usize + 1] as usize);
    next[start..end].binary_search(&word).ok().map(|at| (start + at) as u32)
}
