//! `bowline`: word-level language models from the command line.
//!
//! `main` turns errors into exit codes, [`run`] is one match over the commands, and each command is a file.

mod commands;
mod interrupt;
mod options;
mod ranks;
mod read_ahead;
mod screen;
mod terminal;

use bowline::run::ranks::Ranks;
use bowline_kernels::Isa;
use bowline_mpi::Processes;
use options::{Command, Options};
use std::io::{self, ErrorKind};
use std::process::ExitCode;

fn main() -> ExitCode {
    heed_file_size_limit();
    let options = Options::read();
    let processes = match Processes::join() {
        Ok(processes) => processes,
        Err(error) => {
            terminal::note(format_args!("bowline: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let error = match run(options, processes.ranks()) {
        Ok(code) => return code,
        Err(error) => error,
    };
    // A bare system error is one of standard output: all others come with their file.
    match error.downcast_ref::<io::Error>() {
        // Whoever read it has read enough, as `head` does.
        Some(error) if error.kind() == ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Some(error) => terminal::note(format_args!("bowline: standard output: cannot write: {error}")),
        None => return ranks::failed(&processes, &error),
    }
    ExitCode::FAILURE
}

/// A file that outgrows `ulimit -f` is an error that says what to do, not a silent end.
fn heed_file_size_limit() {
    #[cfg(unix)]
    {
        // Handled, the signal does not end the process, and the write it came with fails.
        let _ = signal_hook::flag::register(
            signal_hook::consts::SIGXFSZ,
            std::sync::Arc::<std::sync::atomic::AtomicBool>::default(),
        );
    }
}

fn run(options: Options, ranks: &dyn Ranks) -> anyhow::Result<ExitCode> {
    if !matches!(options.command, Command::Train(_) | Command::Resume(_)) {
        ranks::require_one(ranks, "this command", "it without `mpirun`; `train` and `resume` can be divided")?;
    }
    choose_isa(&options, ranks)?;
    match options.command {
        Command::Demo(options) => commands::demo::run(&options),
        Command::Train(options) => commands::train::run(&options, ranks),
        Command::Recipes(options) => commands::recipes::run(&options),
        Command::Resume(options) => commands::resume::run(&options, ranks),
        Command::Branch(options) => commands::branch::run(&options),
        Command::Runs(options) => commands::runs::run(&options),
        Command::Settings(options) => commands::settings::run(&options),
        Command::Eval(options) => commands::eval::run(&options),
        Command::Next(options) => commands::next::run(&options),
        Command::Subspace(options) => commands::subspace::run(&options),
        Command::Reproduce(options) => commands::reproduce::run(&options),
        Command::Report(options) => commands::report::run(&options),
        Command::Pairs(options) => commands::pairs::run(&options),
        Command::Score(options) => commands::score::run(&options),
        Command::Rescore(options) => commands::rescore::run(&options),
        Command::Generate(options) => commands::generate::run(&options),
        Command::Neighbours(options) => commands::neighbours::run(&options),
        Command::Compare(options) => commands::compare::run(&options),
        Command::Serve(options) => commands::serve::run(&options),
        Command::Data(options) => commands::data::run(&options),
        Command::Arpa(options) => commands::arpa::run(&options),
        Command::Bench(bench) => commands::bench::run(&bench, options.isa.as_deref() == Some("all")),
        Command::Export(options) => commands::export::run(&options),
        Command::Import(options) => commands::import::run(&options),
        Command::TensorBoard(options) => commands::tensorboard::run(&options),
        Command::Completions(options) => commands::completions::run(&options),
        Command::Man(options) => commands::man::run(&options),
    }
}

/// Makes the instruction set that was asked for the one of this process.
fn choose_isa(options: &Options, ranks: &dyn Ranks) -> anyhow::Result<()> {
    let asked = match (options.isa.as_deref(), &options.command) {
        (Some(name), _) => name,
        // The same bits as before, whatever else this CPU has.
        (None, Command::Resume(resume)) => match bowline::run::recorded_isa(&resume.run) {
            Some(name) if Isa::named(name).is_none() && ranks.size() == 1 => {
                let cpu = bowline_kernels::model_name();
                anyhow::bail!(
                    "{}: the run was trained with {name}, which this CPU ({cpu}) does not have\n  try: the CPU it began on, \
                     or `bowline resume {} --isa auto` to continue with other last bits",
                    resume.run.display(),
                    commands::shell(&resume.run)
                );
            }
            Some(name) => name,
            None => "auto",
        },
        _ => "auto",
    };
    match asked {
        asked if ranks.size() > 1 => ranks::choose_isa(ranks, asked),
        "auto" => Ok(()),
        "all" if matches!(options.command, Command::Bench(_)) => Ok(()),
        "all" => {
            anyhow::bail!("`--isa all` is for `bowline bench`\n  try: `--isa auto`, which takes the widest the CPU has")
        }
        name => match Isa::named(name) {
            Some(isa) => {
                isa.choose();
                Ok(())
            }
            None => {
                let have: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
                anyhow::bail!(
                    "`--isa {name}`: this CPU ({}) does not have it\n  try: one of {}",
                    bowline_kernels::model_name(),
                    have.join(", ")
                )
            }
        },
    }
}
