//! Lines on standard error, besides progress and the summary.
//!
//! Errors are ignored: a closed terminal must not stop a copy.

use std::io::{self, Write};

use haul_base::secrets::without_secrets;
use haul_base::sys::describe::without_numbers;
use haul_proto::path::escape;

use crate::terminal::stderr_takes_colour;

/// The output of lines, with or without colours.
pub struct TextOutput {
    out: Box<dyn Write>,
    colour: bool,
    program: &'static str,
    /// What each line is about, with a colon; empty if there is only one copy.
    label: String,
}

impl TextOutput {
    /// Writes to `out`.
    pub fn new(out: Box<dyn Write>, colour: bool) -> Self {
        Self { out, colour, program: "haul", label: String::new() }
    }

    /// Sets another program name before its lines.
    pub fn called(self, program: &'static str) -> Self {
        Self { program, ..self }
    }

    /// Begins each line with the target that it is about, if there are several.
    pub fn about(self, target: Option<&str>) -> Self {
        Self { label: target.map_or_else(String::new, |target| format!("{target}: ")), ..self }
    }

    /// What lines begin with.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Writes `haul: WHAT` (or `bbcp: WHAT`), and the further lines of `message`: hints, unless they begin with `note:
    /// ` or are indented.
    pub fn error(&mut self, message: &str) {
        self.message(message, true);
    }

    /// Writes a message that is not an error.
    pub fn notice(&mut self, message: &str) {
        self.message(message, false);
    }

    /// Writes `haul: HOST: PATH: WHAT`, and hints.
    pub fn failure(&mut self, host: &str, path: &[u8], message: &str) {
        let host = if host.is_empty() { String::new() } else { format!("{host}: ") };
        self.error(&format!("{host}{}: {message}", escape(path)));
    }

    /// Writes lines unchanged.
    pub fn plain(&mut self, lines: &str) {
        let lines: String = lines.split('\n').map(|line| format!("{}{line}\n", self.label)).collect();
        self.write(&lines);
    }

    fn message(&mut self, message: &str, is_error: bool) {
        let (red, normal) = if self.colour && is_error { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
        let mut shown = String::new();
        for (number, line) in without_numbers(message).lines().enumerate() {
            let line = harmless(line);
            let is_plain = ["hint: ", "note: ", "  "].iter().any(|label| line.starts_with(label));
            match number {
                0 => shown.push_str(&format!("{red}{}:{normal} {}{line}\n", self.program, self.label)),
                _ if is_plain => shown.push_str(&format!("      {line}\n")),
                _ => shown.push_str(&format!("      hint: {line}\n")),
            }
        }
        self.write(&shown);
    }

    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// Standard error as lines of text.
pub fn stderr() -> TextOutput {
    TextOutput::new(Box::new(io::stderr()), stderr_takes_colour())
}

/// Escapes control characters in text that may be another machine's, and hides secrets. Names in it are escaped
/// already, so backslashes stay.
pub fn harmless(line: &str) -> String {
    without_secrets(line).split('\\').map(|piece| escape(piece.as_bytes())).collect::<Vec<_>>().join("\\")
}

/// Names the machine of a local copy.
pub fn within(host: Option<&str>) -> String {
    format!("within {}", host.map_or_else(|| "this machine".to_owned(), harmless))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Paper;

    #[test]
    fn hints_are_on_their_own_lines_and_names_are_escaped() {
        let paper = Paper::default();
        let mut text = TextOutput::new(Box::new(paper.clone()), false);
        text.failure("db1", b"run7/a\nb", "no space left on the device\nfree some, then rerun the command");
        text.failure("", b"\xff", "cannot be read: Input/output error (os error 5)\nnote: odd\nhint: ask");
        text.notice("haul was put on db1: \x1b[2J.cache/a\\nb");
        insta::assert_snapshot!(paper.text(), @r#"
            haul: db1: run7/a\nb: no space left on the device
                  hint: free some, then rerun the command
            haul: \xff: cannot be read: Input/output error
                  note: odd
                  hint: ask
            haul: haul was put on db1: \u{1b}[2J.cache/a\nb
            "#);
    }

    #[test]
    fn lines_of_several_targets_begin_with_their_target() {
        let paper = Paper::default();
        let mut text = TextOutput::new(Box::new(paper.clone()), false).about(Some("db1:/a"));
        text.error("no space left\nfree some");
        text.plain("1 file\nconnection  none");
        insta::assert_snapshot!(paper.text(), @r"
            haul: db1:/a: no space left
                  hint: free some
            db1:/a: 1 file
            db1:/a: connection  none
            ");
    }

    #[test]
    fn only_errors_are_coloured() {
        let paper = Paper::default();
        let mut text = TextOutput::new(Box::new(paper.clone()), true);
        text.error("bad");
        text.notice("good");
        assert_eq!(paper.text(), "\x1b[31mhaul:\x1b[0m bad\nhaul: good\n");
    }

    #[test]
    fn a_lost_terminal_is_no_error() {
        struct Lost;
        impl Write for Lost {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
        TextOutput::new(Box::new(Lost), false).error("still here");
    }
}
