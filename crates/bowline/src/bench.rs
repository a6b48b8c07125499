//! How fast is training here? Real training steps on words drawn from a Zipf law, in the shape of the paper's work.

use crate::batch::Window;
use crate::compute::Compute;
use crate::config::{Config, Training};
use crate::model::{AugmentedForm, Masks, Network, Pass, Sampler, State, Use};
use crate::optim::{self, Optimizer};
use crate::params::Params;
use crate::rng::{Purpose, Stream, unit};
use bowline_kernels::{Isa, Precision, Team, model_name, peak_gflops};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Network size.
    pub size: String,
    /// Model.
    pub model: String,
    /// Words in the vocabulary.
    pub vocab: usize,
    /// Streams and steps of a window.
    pub batch: usize,
    /// Steps of a window.
    pub unroll: usize,
    /// Threads.
    pub threads: usize,
    /// Instruction set.
    pub isa: String,
    /// What operands are rounded to.
    pub precision: String,
    /// Processor.
    pub cpu: String,
    /// Training words per second: the median over the steps.
    pub tokens_per_second: f64,
    /// Useful floating-point operations per second, in 10^9: multiply-adds of the matrix products, counted twice, with the
    /// different targets of a window counted once.
    pub gflops: f64,
    /// The same with everything in registers, in the same precision, measured just now.
    pub peak_gflops: f64,
    /// `gflops / peak_gflops`.
    pub share_of_peak: f64,
    /// Steps measured.
    pub steps: usize,
    /// Seconds of each step, sorted.
    pub step_seconds: Vec<f64>,
}

/// Runs `steps` training steps after a few to warm up. `watch` is told how many are done.
pub fn measure(
    config: &Config,
    vocab: usize,
    threads: usize,
    isa: Isa,
    steps: usize,
    watch: &mut dyn FnMut(usize),
) -> Measurement {
    let spec = config.spec(vocab);
    let compute = Compute::new(Arc::new(Team::new(threads)), isa);
    let (batch, unroll, precision) = (config.batch, config.unroll, Precision::from(config.precision));
    let mut network = Network::new(&spec, compute.clone().at(precision), Use::Train, unroll, batch);
    let (mut params, mut gradient) = (Params::zeros(&spec), Params::zeros(&spec));
    Stream::new(config.seed, Purpose::Weights, 0).fill(params.data_mut(), |r| (2.0 * unit(r) - 1.0) * config.init);
    let mut state = State::zeros(&spec, batch);
    let mut masks = Masks::new(&spec, batch);
    let mut optimizer = Optimizer::new(&config.optimizer, &params);
    let zipf = Zipf::new(vocab);
    let counts: Vec<u64> = (1..=vocab as u64).map(|rank| 10_000_000 / rank).collect();
    let sampled = config.loss.sampled;
    let mut sampler = (sampled > 0).then(|| Sampler::new(config.seed, &counts, sampled));
    let peak = peak_gflops(&compute.team, isa, precision);
    let warm_up = 3;
    let (mut seconds, mut operations) = (Vec::new(), 0.0);
    for step in 0..(warm_up + steps) as u64 {
        let window = zipf.window(config.seed, step, unroll, batch);
        let start = Instant::now();
        if config.masks.is_off() {
            masks.draw(config.seed, step, config.keep);
        } else {
            masks.draw_by_site(&config.masks, &spec, &window, (config.seed, step));
        }
        let pass = Pass {
            masks: Some(&masks),
            augment: config.augmented_loss(Training::Second, step, vocab),
            activity: config.activity(),
            sample: sampler.as_mut().map(|sampler| sampler.draw(&compute.team, step, &window.targets)),
            ..Pass::default()
        };
        network.pack_masked(&params, Use::Train, pass);
        network.train(&params, &window, &mut state, pass, &mut gradient);
        let touched = network.touched();
        let norm = optim::norm_touched(&compute, &gradient, touched);
        let rule = config.rule(config.learning_rate);
        optimizer.step_touched(&compute, &mut params, (&gradient, touched), norm, (rule, step + 1));
        if step >= warm_up as u64 {
            seconds.push(start.elapsed().as_secs_f64());
            operations += operations_of(config, vocab, &window);
        }
        watch(step as usize + 1);
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    let gflops = operations / steps as f64 / median / 1e9;
    Measurement {
        size: config.size.name().to_owned(),
        model: config.model.name().to_owned(),
        vocab,
        batch,
        unroll,
        threads,
        isa: isa.name().to_owned(),
        precision: precision.name().to_owned(),
        cpu: model_name(),
        tokens_per_second: (batch * unroll) as f64 / median,
        gflops,
        peak_gflops: peak,
        share_of_peak: gflops / peak,
        steps,
        step_seconds: seconds,
    }
}

/// Floating-point operations of the matrix products of one training step.
fn operations_of(config: &Config, vocab: usize, window: &Window) -> f64 {
    let (rows, spec) = (window.targets.len() as f64, config.spec(vocab));
    let classifier = (vocab * spec.width()) as f64;
    let distinct = window.targets.iter().collect::<HashSet<_>>().len() as f64;
    let exact = config.augmented_loss(Training::Second, 0, vocab).filter(|a| a.form == AugmentedForm::Exact);
    let augmented = match exact {
        None => 0.0,
        Some(a) => distinct * classifier * if a.flow { 4.0 } else { 1.0 },
    };
    // Words that the classifier does not see, where the loss is over a sample.
    let unseen = match config.loss.sampled as f64 {
        0.0 => 0.0,
        sampled => (vocab as f64 - sampled - distinct).max(0.0),
    };
    2.0 * (3.0 * rows * (spec.products() as f64 - unseen * spec.width() as f64) + augmented)
}

/// Word `i` (from 0) with a probability proportional to `1 / (i + 1)`.
struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(vocab: usize) -> Zipf {
        let mut sum = 0.0;
        let cumulative = (0..vocab)
            .map(|i| {
                sum += 1.0 / (i + 1) as f64;
                sum
            })
            .collect();
        Zipf { cumulative }
    }

    fn word(&self, r: u32) -> u32 {
        let total = self.cumulative.last().copied().unwrap_or(1.0);
        let at = (f64::from(r) + 0.5) / 2f64.powi(32) * total;
        self.cumulative.partition_point(|&c| c < at).min(self.cumulative.len() - 1) as u32
    }

    fn window(&self, seed: u64, step: u64, steps: usize, batch: usize) -> Window {
        let stream = Stream::new(seed, Purpose::Words, step);
        let n = (steps + 1) * batch;
        let words: Vec<u32> =
            (0..n.div_ceil(4) as u32).flat_map(|block| stream.block(block)).take(n).map(|r| self.word(r)).collect();
        Window { steps, batch, inputs: words[..steps * batch].to_vec(), targets: words[batch..].to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_follow_zipf_s_law() {
        let zipf = Zipf::new(10_000);
        let mut counts = vec![0usize; 10_000];
        let mut distinct = 0;
        for step in 0..50 {
            let window = zipf.window(1, step, 35, 20);
            assert_eq!((window.inputs.len(), window.targets.len()), (700, 700));
            window.targets.iter().for_each(|&w| counts[w as usize] += 1);
            distinct += window.targets.iter().collect::<HashSet<_>>().len();
        }
        // The harmonic number of 10,000 is 9.79: one word in 9.79 is the first.
        assert!((counts[0] as f64 / 35_000.0 - 1.0 / 9.79).abs() < 0.01);
        assert!((300..450).contains(&(distinct / 50)), "{}", distinct / 50);
    }
}
