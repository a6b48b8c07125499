//! What comes with the program to be installed.

use std::path::Path;
use std::process::Command;

/// systemd's own opinion of the service file, where there is a systemd.
#[test]
fn the_service_file_is_sound() {
    let unit = include_str!("../../../dist/bowline.service");
    let program = env!("CARGO_BIN_EXE_bowline");
    assert!(unit.contains("/usr/local/bin/bowline serve "));
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("skipped: there is no systemd-analyze here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bowline.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/bowline", program)).unwrap();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Faults of other units of the machine are not ours.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("bowline")).collect();
    assert!(ours.is_empty(), "{said}");
}
