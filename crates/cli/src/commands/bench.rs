//! `bowline bench`: training speed on words drawn from a Zipf law.

use super::print_json;
use crate::options::BenchOptions;
use crate::screen::stdout;
use bowline::bench::{Measurement, measure};
use bowline::config::{Precision, Size, TargetGradient};
use bowline::recipes::Recipe;
use bowline_kernels::Isa;
use std::io::Write;
use std::process::ExitCode;

pub fn run(options: &BenchOptions, all: bool) -> anyhow::Result<ExitCode> {
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
    if !all {
        let m =
            measure(&config, options.vocab as usize, options.threads.get(), Isa::detect(), steps as usize, &mut |_| {});
        return if options.json { print_json(&m) } else { describe(&m) }.map(|()| ExitCode::SUCCESS);
    }
    // In turn, three times, so that a busy moment does not fall on one of them alone.
    let sets: Vec<Isa> = Isa::available().into_iter().filter(|isa| config.check_cpu(*isa).is_ok()).collect();
    let mut found: Vec<Vec<Measurement>> = sets.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (isa, found) in sets.iter().zip(&mut found) {
            found.push(measure(
                &config,
                options.vocab as usize,
                options.threads.get(),
                *isa,
                steps as usize,
                &mut |_| {},
            ));
        }
    }
    let medians: Vec<Measurement> = found.into_iter().filter_map(median).collect();
    if options.json {
        print_json(&medians)?;
        return Ok(ExitCode::SUCCESS);
    }
    medians.iter().try_for_each(describe)?;
    let taken = Isa::detect().name();
    writeln!(stdout(), "{taken} is the default: the widest this CPU has (change it with `--isa`)")?;
    Ok(ExitCode::SUCCESS)
}

/// Calls of each instruction set with `--isa all`.
const ROUNDS: usize = 3;

/// The one in the middle by speed.
fn median(mut found: Vec<Measurement>) -> Option<Measurement> {
    found.sort_by(|a, b| a.tokens_per_second.total_cmp(&b.tokens_per_second));
    let middle = found.len() / 2;
    (middle < found.len()).then(|| found.swap_remove(middle))
}

fn describe(m: &Measurement) -> anyhow::Result<()> {
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
    Ok(())
}
