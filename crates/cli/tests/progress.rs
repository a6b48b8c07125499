//! What a training looks like on terminals of several widths: one line of progress that never wraps, and nothing left of it.
#![cfg(unix)]

mod common;

use common::{Place, finish};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::num::NonZero;
use std::process::{Command, Stdio};

/// Runs a program on a terminal of so many columns. `each` sees the screen after every piece of output; the last screen is
/// returned with all rows that ever were on it.
fn on_terminal(command: &mut Command, columns: u16, mut each: impl FnMut(&vt100::Screen)) -> Vec<String> {
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
        each(terminal.screen());
    }
    assert!(child.wait().unwrap().success(), "{}", terminal.screen().contents());
    terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect()
}

fn training(place: &Place, out: &str) -> Command {
    let mut command = place.train(out);
    // Long enough for the bar to be drawn several times.
    command.args(["--epochs", "3", "--set", "hidden=160", "--model", "vd-lstm"]);
    command
}

#[test]
fn progress_is_one_line_at_any_width() {
    let place = Place::new();
    for columns in [40, 80, 120] {
        let (mut drawn, mut most) = (0, String::new());
        let rows = on_terminal(&mut training(&place, &format!("run{columns}")), columns, |screen| {
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
    let ended = finish(&mut training(&place, "run")).success();
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!all.contains(['\x1b', '\r', '[']), "{all:?}");
    assert_eq!(ended.stderr.lines().filter(|line| line.starts_with("epoch ")).count(), 3, "{all}");
}
