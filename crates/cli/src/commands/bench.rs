//! `bowline bench`: training speed on words drawn from a Zipf law.

use super::print_json;
use crate::options::BenchOptions;
use bowline::bench::measure;
use bowline::config::{Precision, Size, TargetGradient};
use bowline::recipes::Recipe;
use bowline_kernels::Isa;
use std::io::{Write, stdout};
use std::process::ExitCode;

pub fn run(options: &BenchOptions) -> anyhow::Result<ExitCode> {
    let mut config = Recipe::find(&options.model)?.config(options.size.map(Size::from), "ptb")?;
    // As the other tools do it that this is compared with (bench/README.md); a training lets it flow.
    config.augment.gradient = TargetGradient::Stop;
    config.precision = options.precision.map_or(config.precision, Precision::from);
    let config = config.with(&options.settings)?;
    config.check_cpu(Isa::detect())?;
    let steps = options.steps.unwrap_or(match config.size {
        Size::Small => 20,
        Size::Medium => 10,
        Size::Large => 5,
    });
    let m = measure(&config, options.vocab as usize, options.threads.get(), Isa::detect(), steps as usize, &mut |_| {});
    if options.json {
        print_json(&m)?;
    } else {
        let mut out = stdout();
        writeln!(
            out,
            "{} {}, vocabulary {}, {} x {} words a step, {} threads, {}, {}, {}",
            m.model, m.size, m.vocab, m.batch, m.unroll, m.threads, m.precision, m.isa, m.cpu
        )?;
        writeln!(
            out,
            "  {:.0} words/s, {:.1} GFLOP/s, {:.1}% of the measured peak of {:.1} GFLOP/s (median of {} steps)",
            m.tokens_per_second,
            m.gflops,
            100.0 * m.share_of_peak,
            m.peak_gflops,
            m.steps
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
