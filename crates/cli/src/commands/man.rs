//! `bowline man`: the manual pages, from the definition of the command line.

use super::shell;
use crate::options::Options;
use bowline::Error;
use bowline::storage::{atomic, files};
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ManOptions {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

pub fn run(options: &ManOptions) -> anyhow::Result<ExitCode> {
    // `help` would be a page on pages, one more for each command.
    let mut program = Options::command().disable_help_subcommand(true);
    program.build();
    let Some(folder) = &options.out else {
        let mut page = Vec::new();
        Man::new(program).render(&mut page)?;
        stdout().write_all(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    files::create_dir_all(folder).map_err(Error::io(folder, "create the folder"))?;
    let mut pages = Vec::new();
    collect(program, &mut pages);
    for page in &pages {
        atomic::write(folder.join(page.get_filename()), |mut out| page.render(&mut out))?;
    }
    writeln!(stdout(), "{} pages in {}; for example: man {}/bowline.1", pages.len(), shell(folder), shell(folder))?;
    Ok(ExitCode::SUCCESS)
}

/// A page for the command and for all below it.
fn collect(command: Command, pages: &mut Vec<Man>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below.clone(), pages);
    }
    pages.push(Man::new(command));
}
