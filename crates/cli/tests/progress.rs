//! What a training looks like on terminals of several widths: one line of progress that never wraps, and nothing left of it.
#![cfg(unix)]

mod common;

use common::{Place, finish};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Command, ExitStatus, Stdio};

/// Runs a program on a terminal of so many columns. `each` sees the screen after every piece of output, with the keyboard and
/// the program's id; returned are the rows of the last screen, and how the program ended.
fn on_terminal(
    command: &mut Command,
    columns: u16,
    mut each: impl FnMut(&vt100::Screen, &mut File, u32),
) -> (Vec<String>, ExitStatus) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let (rows, size) = (200, |n| NonZero::new(n).unwrap());
    tcsetwinsize(&master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let end = || Stdio::from(OpenOptions::new().read(true).write(true).open(&name).unwrap());
    let mut child = command.stdin(Stdio::null()).stdout(end()).stderr(end()).spawn().unwrap();
    // The command keeps the terminal's other end open, which would hide that the program has ended.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut terminal, mut bytes) = (vt100::Parser::new(size(rows), size(columns), 0), [0; 4096]);
    let mut screen = File::from(master);
    // Reading fails when the program has closed its end.
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        terminal.process(&bytes[..count]);
        each(terminal.screen(), &mut screen, child.id());
    }
    let rows = terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
    (rows, child.wait().unwrap())
}

fn training(place: &Place, out: &str, epochs: &str) -> Command {
    let mut command = place.train(out);
    // Long enough for the bar to be drawn several times.
    command.args(["--epochs", epochs, "--set", "hidden=160", "--model", "vd-lstm"]);
    command
}

#[test]
fn progress_is_one_line_at_any_width() {
    let place = Place::new();
    for columns in [40, 80, 120] {
        let (mut drawn, mut most) = (0, String::new());
        let mut command = training(&place, &format!("run{columns}"), "3");
        let (rows, ended) = on_terminal(&mut command, columns, |screen, _, _| {
            let shown: Vec<String> = screen.rows(0, columns).filter(|row| row.starts_with('[')).collect();
            assert!(shown.len() <= 1, "{columns} columns: {shown:?}");
            for (row, text) in screen.rows(0, columns).enumerate() {
                // A path has no spaces to wrap at.
                let path = text.contains('/');
                assert!(path || !screen.row_wrapped(row as u16), "{columns} columns: `{text}` wraps");
            }
            if let Some(bar) = shown.first() {
                drawn += 1;
                assert!(bar.contains("] epoch ") && bar.contains("/3") && bar.contains("ppl"), "{bar}");
                most = bar.clone().max(most.clone());
            }
        });
        assert!(ended.success(), "{rows:?}");
        assert!(drawn > 0, "no bar at {columns} columns");
        assert!(rows.iter().all(|row| !row.starts_with('[')), "a bar is left behind: {rows:?}");
        let epochs: Vec<&String> = rows.iter().filter(|row| row.starts_with("epoch ")).collect();
        assert_eq!(epochs.len(), 3, "{rows:?}");
        assert!(epochs.iter().all(|row| row.contains("valid ppl")), "{epochs:?}");
        assert_eq!(most.contains("|g|"), columns == 120, "{most}");
        assert_eq!(most.contains("ETA"), columns > 40, "{most}");
    }
}

#[test]
fn a_pipe_gets_plain_lines() {
    let place = Place::new();
    let ended = finish(&mut training(&place, "run", "3")).success();
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!all.contains(['\x1b', '\r', '[']), "{all:?}");
    assert_eq!(ended.stderr.lines().filter(|line| line.starts_with("epoch ")).count(), 3, "{all}");
}

/// A terminal echoes Ctrl-C as `^C` where the cursor stands: it must not push the bar out of reach.
#[test]
fn ctrl_c_leaves_no_bar_behind() {
    let place = Place::new();
    for columns in [40, 80, 120] {
        let (mut command, mut asked) = (training(&place, &format!("run{columns}"), "2000"), false);
        let (rows, ended) = on_terminal(&mut command, columns, |screen, keyboard, id| {
            if !asked && screen.rows(0, columns).any(|row| row.starts_with('[')) {
                asked = true;
                // The key is echoed; the signal is sent apart, since the terminal is not the program's own.
                keyboard.write_all(b"\x03").unwrap();
                assert!(Command::new("kill").arg(id.to_string()).status().unwrap().success());
            }
        });
        assert_eq!(ended.code(), Some(130), "{rows:?}");
        assert!(rows.iter().all(|row| !row.starts_with('[') && !row.contains("^C")), "{columns}: {rows:?}");
        // That it is saving is said only if that takes a moment.
        assert!(rows.iter().any(|row| row.starts_with("resume with: bowline resume")), "{columns}: {rows:?}");
    }
}
