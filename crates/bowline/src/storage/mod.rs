//! Files that are written whole or not at all, and read strictly.
//!
//! [`atomic`] replaces a file in one step, so that a kill or a full disk at any instant leaves either the old contents
//! or the new ones; [`new_folder`] does so for a whole folder. Everything goes through [`files`]. [`tensor_file`] is the file
//! format for weights and checkpoints: named `f32` tensors with a content hash, readable by every tool that reads
//! safetensors. `strict_json` reads JSON objects strictly.

pub mod atomic;
pub mod files;
pub mod new_folder;
pub mod partial;
pub(crate) mod strict_json;
pub mod tensor_file;

/// Text out of a file, fit for a message: control characters escaped, and cut where it gets long.
pub fn printable(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut shown = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == LONGEST {
            shown.push_str("...");
            break;
        }
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_terminal_cannot_be_reached_through_a_message() {
        assert_eq!(printable("caf\u{e9}\u{1b}[2J"), "caf\u{e9}\\u{1b}[2J");
        assert_eq!(printable(&"x".repeat(1000)), "x".repeat(200) + "...");
    }
}
