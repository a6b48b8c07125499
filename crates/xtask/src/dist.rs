//! `cargo xtask dist`: the program with its completions, manual pages and service file, as an archive to be installed.
//!
//! ```text
//! bowline-VERSION-TARGET/
//!     bin/bowline
//!     share/man/man1/*.1
//!     share/bash-completion/completions/bowline    share/zsh/site-functions/_bowline    share/fish/...
//!     lib/systemd/system/bowline.service
//!     LICENSE-MIT, LICENSE-APACHE, THIRD-PARTY.md, README.md
//! ```
//!
//! With the target `x86_64-unknown-linux-musl` installed (`rustup target add`) and a C compiler for it (Debian's `musl-tools`), the
//! program is linked statically and runs on any Linux; without them, it is built for this machine's own target, and that is said.
//! `--into DIR` installs instead: `--into ~/.local` or `--into /usr/local`.

use crate::{root, say};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const STATIC: &str = "x86_64-unknown-linux-musl";

/// What compiles the C in crates for it, unless the environment names another.
const STATIC_CC: (&str, &str) = ("x86_64-linux-musl-gcc", "CC_x86_64_unknown_linux_musl");

/// A shell, and where its completions are looked for.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/bowline"),
    ("zsh", "share/zsh/site-functions/_bowline"),
    ("fish", "share/fish/vendor_completions.d/bowline.fish"),
];

pub fn run(arguments: &[String]) -> Result<()> {
    let into = match arguments {
        [] => None,
        [option, folder] if option == "--into" => Some(PathBuf::from(folder)),
        _ => bail!("usage: cargo xtask dist [--into DIR]"),
    };
    let target = target()?;
    let folders = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--release", "--locked", "--package", "bowline-cli", "--target", &target];
    finish(Command::new(cargo).args(build).current_dir(root()))?;
    let program = folders.join(&target).join("release/bowline");

    let name = format!("bowline-{}-{target}", env!("CARGO_PKG_VERSION"));
    let parent = folders.join("dist");
    let folder = into.clone().unwrap_or_else(|| parent.join(&name));
    if into.is_none() && folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fill(&folder, &program)?;
    if into.is_some() {
        return say(&format!("installed into {}", folder.display()));
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.md", "README.md"] {
        fs::copy(root().join(file), folder.join(file))?;
    }
    let archive = parent.join(format!("{name}.tgz"));
    finish(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&parent).arg(&name))?;
    say(&format!("{}: {} bytes", archive.display(), fs::metadata(&archive)?.len()))
}

/// The target that links statically, if it is installed; otherwise this machine's own.
fn target() -> Result<String> {
    let output = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("rustc").args(arguments).output().context("rustc")?;
        ensure!(output.status.success(), "rustc {} failed", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    };
    let library = output(&["--print", "target-libdir", "--target", STATIC])?;
    let (compiler, variable) = STATIC_CC;
    let compiles = || Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = if !Path::new(library.trim()).exists() {
        format!("{STATIC} is not installed (rustup target add {STATIC})")
    } else if std::env::var_os(variable).is_none() && !compiles() {
        format!("there is no C compiler for {STATIC} ({compiler}, in Debian's musl-tools; or set {variable})")
    } else {
        return Ok(STATIC.to_owned());
    };
    let about = output(&["-vV"])?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not say its host")?;
    say(&format!("{missing}: building for {host}, linked to its libc"))?;
    Ok(host.to_owned())
}

/// Puts everything where it belongs below `folder`.
fn fill(folder: &Path, program: &Path) -> Result<()> {
    let place = |file: &str| -> Result<PathBuf> {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().context("a file without a folder")?)?;
        Ok(path)
    };
    fs::copy(program, place("bin/bowline")?).with_context(|| program.display().to_string())?;
    for (shell, file) in SHELLS {
        let output = Command::new(program).args(["completions", shell]).output()?;
        ensure!(output.status.success(), "bowline completions {shell} failed");
        fs::write(place(file)?, output.stdout)?;
    }
    let pages = place("share/man/man1/bowline.1")?;
    finish(Command::new(program).args(["man", "--out"]).arg(pages.with_file_name("")))?;
    fs::copy(root().join("dist/bowline.service"), place("lib/systemd/system/bowline.service")?)?;
    Ok(())
}

fn finish(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{} failed; see above", command.get_program().to_string_lossy());
    Ok(())
}
