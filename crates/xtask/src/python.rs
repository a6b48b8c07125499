//! `cargo xtask python`: the Python package, built, installed into virtual environments of its own, and tested there.
//!
//! The tests need packages from PyPI. Where there is no Python, or the packages cannot be fetched, they are skipped, and
//! that is said. pyctcdecode has an environment of its own, because it needs a numpy before 2; so have the speech recognisers,
//! which are large.

use crate::{root, say};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// With what the tests run.
const PACKAGES: [&str; 7] =
    ["maturin>=1.9,<2", "numpy", "pytest", "mypy", "flashlight-text==0.0.7", "schemathesis==4.32.5", "openai==3.51.0"];
const PACKAGES_BEFORE_NUMPY_2: [&str; 2] = ["pytest", "pyctcdecode==0.5.0"];
const PACKAGES_FOR_SPEECH: [&str; 7] = [
    "pytest",
    "numpy",
    "onnx==1.23.2",
    "onnxruntime==1.31.1",
    "sherpa-onnx==2.0.1",
    "pocketsphinx==5.1.1",
    "jiwer==4.0.0",
];

const WHAT: &str = "the Python package";

pub fn run() -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let place = target.join("python");
    let Some(door) = environment(&place.join("door"), &PACKAGES, WHAT)? else { return Ok(()) };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    finish(Command::new(cargo).args(["build", "--locked", "--package", "bowline-cli"]).current_dir(root()))?;
    let wheels = place.join("wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels)?;
    }
    let manifest = root().join("crates/python/Cargo.toml");
    finish(
        python(&door)
            .args(["-m", "maturin", "build", "--quiet", "--locked", "-m"])
            .arg(manifest)
            .arg("-o")
            .arg(&wheels),
    )?;
    let wheel = std::fs::read_dir(&wheels)?.next().context("maturin wrote no wheel")??.path();
    install(&door, &wheel)?;

    let tests = root().join("crates/python/tests");
    let pytest = |environment: &Path, tests: &Path| {
        let mut command = python(environment);
        command.args(["-m", "pytest", "--quiet", "-rs", "-p", "no:cacheprovider"]).arg(tests);
        command.env("BOWLINE_PROGRAM", target.join("debug/bowline"));
        finish(&mut command)
    };
    pytest(&door, &tests)?;
    finish(python(&door).args(["-m", "mypy.stubtest", "bowline"]).current_dir(&place))?;
    for (name, packages, test) in [
        ("before-numpy-2", &PACKAGES_BEFORE_NUMPY_2[..], "test_decoders.py"),
        ("speech", &PACKAGES_FOR_SPEECH, "test_speech.py"),
    ] {
        if let Some(environment) = environment(&place.join(name), packages, WHAT)? {
            install(&environment, &wheel)?;
            pytest(&environment, &tests.join(test))?;
        }
    }
    Ok(())
}

/// A virtual environment with packages to test something with; nothing where there is none to be had.
pub fn environment(folder: &Path, packages: &[&str], what: &str) -> Result<Option<PathBuf>> {
    if !python(folder).arg("--version").output().is_ok_and(|output| output.status.success()) {
        let made = Command::new("python3").args(["-m", "venv"]).arg(folder).output();
        if !made.is_ok_and(|output| output.status.success()) {
            say(&format!("skipped: tests of {what}, because `python3 -m venv` does not work here"))?;
            return Ok(None);
        }
    }
    let mut pip = python(folder);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    if !pip.output()?.status.success() {
        say(&format!("skipped: tests of {what}, because pip could not fetch {}", packages.join(", ")))?;
        return Ok(None);
    }
    Ok(Some(folder.to_owned()))
}

fn install(environment: &Path, wheel: &Path) -> Result<()> {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"];
    finish(python(environment).args(pip).arg(wheel))
}

fn python(environment: &Path) -> Command {
    Command::new(environment.join("bin/python"))
}

fn finish(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{} failed; see above", command.get_program().to_string_lossy());
    Ok(())
}
