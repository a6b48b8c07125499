//! Drawing sentences from the automaton.
//!
//! The random numbers are counter-based: the n-th of a stream is a fixed function of the seed, the stream and n, in
//! integer arithmetic; the rest is addition, multiplication and comparison of `f64`, which are the same everywhere. So
//! a seed names the same text on every platform and for all time.

use super::automaton::{Automaton, EOS};

/// A stream of random numbers.
pub(super) struct Stream {
    key: u64,
    counter: u64,
}

impl Stream {
    /// Streams of different numbers are independent of each other.
    pub(super) fn new(seed: u64, stream: u64) -> Stream {
        Stream { key: mix(mix(seed) ^ stream.wrapping_mul(0xd134_2543_de82_ef95)), counter: 0 }
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub(super) fn uniform(&mut self) -> f64 {
        self.counter += 1;
        let bits = mix(self.key.wrapping_add(self.counter.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The finaliser of SplitMix64: a bijection in which each input bit reaches all output bits.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Whole sentences, one a line, until there are at least `tokens` words, the end of each line counted as one.
pub(super) fn text(automaton: &Automaton, stream: &mut Stream, tokens: usize) -> String {
    let mut text = String::new();
    let mut said = 0;
    while said < tokens {
        let mut node = Automaton::START;
        let mut line_is_empty = true;
        loop {
            let edge = automaton.choose(node, stream.uniform());
            said += 1;
            let word = automaton.words[edge.word as usize].as_str();
            if word == EOS {
                text.push('\n');
                break;
            }
            if !line_is_empty {
                text.push(' ');
            }
            text.push_str(word);
            line_is_empty = false;
            node = edge.next;
        }
    }
    text
}
