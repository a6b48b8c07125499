//! A question to the classifier: how likely is this word here, and which ones are the likeliest?

use bowline_kernels::loss::LogSum;

/// A question about what comes after one word of a window, and its answer. All logarithms are natural.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// The place `t * batch + b` in the window.
    pub row: usize,
    /// The word whose probability is asked for.
    pub target: u32,
    /// How many of the likeliest words are asked for.
    pub top: usize,
    /// Answer: `log y_target`.
    pub logprob: f64,
    /// Answer: the likeliest words and their `log y`, likeliest first; of equals, the one with the lower id.
    pub likeliest: Vec<(u32, f64)>,
}

impl Question {
    /// Answers from a row of logits, to which the bias is still to be added, and `log sum e^(z + b)`.
    pub(super) fn answer(&mut self, z: &[f32], bias: Option<&[f32]>, log_sum: LogSum) {
        let log_y = |id: usize| -log_sum.minus_log_of(f64::from(bias.map_or(z[id], |b| z[id] + b[id])));
        self.logprob = log_y(self.target as usize);
        self.likeliest.clear();
        if self.top == 0 {
            return;
        }
        // The few likeliest so far, in order; most words are worse than the last of them and cost one comparison.
        for id in 0..z.len() {
            let value = log_y(id);
            if self.likeliest.len() == self.top && self.likeliest.last().is_some_and(|&(_, last)| value <= last) {
                continue;
            }
            let place = self.likeliest.partition_point(|&(_, other)| other >= value);
            self.likeliest.insert(place, (id as u32, value));
            self.likeliest.truncate(self.top);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_come_in_order_and_equals_by_id() {
        let z = [0.5, 2.0, -1.0, 2.0, 0.0, 1.5];
        let sum = LogSum { max: 2.0, rest: 1.0 };
        let mut question = Question { target: 2, top: 4, ..Question::default() };
        question.answer(&z, None, sum);
        assert_eq!(question.logprob, -4.0);
        assert_eq!(question.likeliest, [(1, -1.0), (3, -1.0), (5, -1.5), (0, -2.5)]);
        let bias = [0.0, 0.0, 4.0, 0.0, 0.0, 0.0];
        question.top = 100;
        question.answer(&z, Some(&bias), sum);
        assert_eq!((question.logprob, question.likeliest.len()), (0.0, 6));
        assert_eq!(question.likeliest[0], (2, 0.0));
        question.top = 0;
        question.answer(&z, None, sum);
        assert!(question.likeliest.is_empty());
    }
}
