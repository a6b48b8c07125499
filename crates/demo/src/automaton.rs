//! The grammar as a finite automaton.
//!
//! A *node* of the automaton stands for everything that may still be said: a list of *edges*, each with a word, a
//! probability and the node that follows. The edges of a node sum to one, and no path visits a node twice. Several
//! edges of one node may carry the same word: after that word it is uncertain where the speaker stands, which is what
//! makes the exact next-word distribution a sum over hidden paths (see `truth`).
//!
//! Phrases are compiled from the end of the sentence to its beginning, and nodes that say the same with the same
//! probabilities are one node; so the endings that thousands of sentences share exist once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use super::inflection::takes_an;
use super::phrase::{Node, Phrase};

/// The word that ends each sentence, as the corpus reader writes it.
pub(super) const EOS: &str = "<eos>";

/// One word that may come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    /// Index of the word.
    pub(super) word: u32,
    /// The node afterwards; for the end of a sentence, the beginning of the next.
    pub(super) next: u32,
    /// The probability of this edge at its node.
    pub(super) probability: f64,
}

/// The compiled grammar.
pub(super) struct Automaton {
    /// All words; index 0 is [`EOS`].
    pub(super) words: Vec<String>,
    /// Where each node's edges begin in `edges`; one more entry than nodes.
    first_edge: Vec<usize>,
    edges: Vec<Edge>,
    /// For each edge, the sum of the probabilities of its node's edges up to and with it.
    up_to: Vec<f64>,
}

impl Automaton {
    /// Node 0 is the beginning of a sentence.
    pub(super) const START: u32 = 0;

    /// Compiles the phrase that is a whole sentence (without the end mark).
    pub(super) fn new(sentence: &Phrase) -> Automaton {
        let mut builder = Builder::default();
        let end_word = builder.word(EOS);
        // While building, the beginning does not exist yet: node 0 is a stand-in for it, without edges.
        let beginning = builder.intern(Vec::new());
        let end = builder.intern(vec![Edge { word: end_word, next: beginning, probability: 1.0 }]);
        let first = builder.compile(sentence, end);
        builder.nodes[beginning as usize] = builder.nodes[first as usize].clone();
        builder.finish()
    }

    /// The edges of a node, ordered by word.
    pub(super) fn edges(&self, node: u32) -> &[Edge] {
        let node = node as usize;
        &self.edges[self.first_edge[node]..self.first_edge[node + 1]]
    }

    /// The edge of a node that a number in [0, 1) falls on, the edges laid end to end.
    pub(super) fn choose(&self, node: u32, at: f64) -> Edge {
        let (first, end) = (self.first_edge[node as usize], self.first_edge[node as usize + 1]);
        let chosen = self.up_to[first..end].partition_point(|&up_to| up_to <= at);
        // The last edge takes what rounding leaves over.
        self.edges[(first + chosen).min(end - 1)]
    }

    /// How many nodes there are.
    #[cfg(test)]
    pub(super) fn node_count(&self) -> u32 {
        self.first_edge.len() as u32 - 1
    }
}

/// What makes two nodes the same: their edges, to the last bit.
type Key = Rc<[(u32, u32, u64)]>;

#[derive(Default)]
struct Builder {
    words: Vec<String>,
    word_index: HashMap<String, u32, BuildHasherDefault<QuickHasher>>,
    nodes: Vec<Vec<Edge>>,
    node_index: HashMap<Key, u32, BuildHasherDefault<QuickHasher>>,
    /// Phrases are shared: each is compiled once for each node that may follow it.
    compiled: HashMap<(*const Node, u32), u32, BuildHasherDefault<QuickHasher>>,
}

/// A hash for millions of small numbers, none of which comes from outside.
#[derive(Default)]
struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            self.write_u64(chunk.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Builder {
    fn word(&mut self, word: &str) -> u32 {
        if let Some(&index) = self.word_index.get(word) {
            return index;
        }
        let index = self.words.len() as u32;
        self.words.push(word.to_owned());
        self.word_index.insert(word.to_owned(), index);
        index
    }

    /// The node with these edges; edges alike in word and aim are added up.
    fn intern(&mut self, mut edges: Vec<Edge>) -> u32 {
        edges.sort_by_key(|edge| (edge.word, edge.next));
        edges.dedup_by(|later, kept| {
            let same = (later.word, later.next) == (kept.word, kept.next);
            if same {
                kept.probability += later.probability;
            }
            same
        });
        let key: Key = edges.iter().map(|edge| (edge.word, edge.next, edge.probability.to_bits())).collect();
        let fresh = self.nodes.len() as u32;
        let node = *self.node_index.entry(key).or_insert(fresh);
        if node == fresh {
            self.nodes.push(edges);
        }
        node
    }

    /// The node that says `phrase` and goes on as `next`.
    fn compile(&mut self, phrase: &Phrase, next: u32) -> u32 {
        let key = (Rc::as_ptr(&phrase.0), next);
        if let Some(&node) = self.compiled.get(&key) {
            return node;
        }
        let node = match &*phrase.0 {
            Node::Group(group) => {
                let total: f64 = group.iter().map(|(_, weight)| weight).sum();
                let edges = group
                    .iter()
                    .map(|(word, weight)| Edge { word: self.word(word), next, probability: weight / total })
                    .collect();
                self.intern(edges)
            }
            Node::Sequence(parts) => parts.iter().rev().fold(next, |next, part| self.compile(part, next)),
            Node::Choice(parts) => {
                let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
                let mut edges = Vec::new();
                for (weight, part) in parts {
                    let node = self.compile(part, next);
                    let share = weight / total;
                    edges.extend(
                        self.nodes[node as usize]
                            .iter()
                            .map(|edge| Edge { probability: share * edge.probability, ..*edge }),
                    );
                }
                self.intern(edges)
            }
            Node::Article(phrase) => {
                let node = self.compile(phrase, next);
                self.article(node)
            }
        };
        self.compiled.insert(key, node);
        node
    }

    /// The node that says "a" or "an" and goes on as `node`: the edges of `node` are dealt out by the sound of their
    /// words, and the article has the probability of its share.
    fn article(&mut self, node: u32) -> u32 {
        let (an, a): (Vec<Edge>, Vec<Edge>) =
            self.nodes[node as usize].iter().partition(|edge| takes_an(&self.words[edge.word as usize]));
        let mut articles = Vec::new();
        for (article, mut edges) in [("a", a), ("an", an)] {
            let share: f64 = edges.iter().map(|edge| edge.probability).sum();
            if !edges.is_empty() {
                edges.iter_mut().for_each(|edge| edge.probability /= share);
                let next = self.intern(edges);
                articles.push(Edge { word: self.word(article), next, probability: share });
            }
        }
        self.intern(articles)
    }

    /// Keeps what can be reached from the beginning, renumbered in the order in which it is reached.
    fn finish(self) -> Automaton {
        let mut number: HashMap<u32, u32> = HashMap::from([(Automaton::START, Automaton::START)]);
        let mut queue = vec![Automaton::START];
        let (mut first_edge, mut edges, mut up_to) = (vec![0], Vec::new(), Vec::new());
        let mut done = 0;
        while let Some(&node) = queue.get(done) {
            done += 1;
            let mut sum = 0.0;
            for edge in &self.nodes[node as usize] {
                let fresh = queue.len() as u32;
                let next = *number.entry(edge.next).or_insert(fresh);
                if next == fresh {
                    queue.push(edge.next);
                }
                edges.push(Edge { next, ..*edge });
                sum += edge.probability;
                up_to.push(sum);
            }
            first_edge.push(edges.len());
        }
        Automaton { words: self.words, first_edge, edges, up_to }
    }
}
