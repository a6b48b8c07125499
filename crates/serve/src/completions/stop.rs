//! Where a continuation ends because of what is in it.

use std::sync::Arc;

/// Watches a text for strings that end it. What may be the beginning of one is held back until that is clear.
#[derive(Clone, Debug)]
pub struct StopWatch {
    /// Shared by all continuations of a request.
    stops: Arc<[String]>,
    held: String,
    stopped: bool,
}

impl StopWatch {
    /// Watches for any of `stops`.
    pub fn new(stops: Arc<[String]>) -> StopWatch {
        StopWatch { stops, held: String::new(), stopped: false }
    }

    /// Whether one of them has come.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// The text goes on: what of it can be said by now. The string that ends it, and what follows, is not said.
    pub fn push(&mut self, piece: &str) -> String {
        if self.stopped {
            return String::new();
        }
        self.held.push_str(piece);
        if let Some(end) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.stopped = true;
            self.held.truncate(end);
            return std::mem::take(&mut self.held);
        }
        // The longest end of the text that some string begins with.
        let begins = |at: usize| self.stops.iter().any(|stop| stop.starts_with(&self.held[at..]));
        let keep = self.held.char_indices().map(|(at, _)| at).find(|&at| begins(at)).unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// The text is over: what was held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let mut watch = StopWatch::new(stops.iter().map(|stop| stop.to_string()).collect());
        let mut said: Vec<String> = pieces.iter().map(|piece| watch.push(piece)).collect();
        said.push(watch.finish());
        (said, watch.stopped())
    }

    #[test]
    fn the_text_ends_before_the_string() {
        assert_eq!(
            said(&[" c"], &["a", " b", " c", " d"]),
            (vec!["a".into(), " b".into(), "".into(), "".into(), "".into()], true)
        );
        assert_eq!(said(&[], &["a", " b"]), (vec!["a".into(), " b".into(), "".into()], false));
    }

    #[test]
    fn what_may_be_a_beginning_is_held_back() {
        let (pieces, stopped) = said(&["b c", "x"], &["a", " b", " d", " b", " c"]);
        assert_eq!(pieces, ["a", " ", "b d", " ", "", ""]);
        assert!(stopped);
        let (pieces, stopped) = said(&["b c"], &["a", " b"]);
        assert_eq!(pieces, ["a", " ", "b"]);
        assert!(!stopped);
    }

    #[test]
    fn the_first_place_counts_whatever_the_order_of_the_strings() {
        assert_eq!(said(&["é", "d"], &["cdé"]).0, ["c", ""]);
        assert_eq!(said(&["ab", "é"], &["xé"]).0, ["x", ""]);
        assert_eq!(
            said(&["aab"], &["a", "a", "a", "b"]),
            (vec!["".into(), "".into(), "a".into(), "".into(), "".into()], true)
        );
    }
}
