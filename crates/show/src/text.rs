//! Lines on standard error, besides progress and the summary.
//!
//! Errors are ignored: a closed terminal must not stop a copy.

use std::io::{self, Write};

use haul_base::secrets::without_secrets;
use haul_base::sys::describe::without_numbers;
use haul_proto::path::escape;

use crate::terminal::stderr_takes_colour;

/// What a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A failure.
    Error,
    /// Something to check, though the command goes on or has ended.
    Warning,
    /// A success.
    Done,
    /// A remedy or a quotation below a message.
    Hint,
    /// Anything else.
    Plain,
}

impl Tone {
    /// The attributes on a terminal with colours (SGR of ECMA-48).
    const fn attributes(self) -> &'static str {
        match self {
            Self::Error => "31",
            Self::Warning => "33",
            Self::Done => "32",
            Self::Hint => "2",
            Self::Plain => "",
        }
    }
}

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
        self.message(message, Tone::Error);
    }

    /// Writes a message that is not an error.
    pub fn notice(&mut self, message: &str) {
        self.message(message, Tone::Plain);
    }

    /// Writes a warning.
    pub fn warning(&mut self, message: &str) {
        self.message(message, Tone::Warning);
    }

    /// Writes lines unchanged, the first one in this tone.
    pub fn result(&mut self, lines: &str, tone: Tone) {
        let (first, rest) = lines.split_at(lines.find('\n').unwrap_or(lines.len()));
        self.plain(&format!("{}{rest}", self.toned(first, tone)));
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

    fn toned(&self, text: &str, tone: Tone) -> String {
        match tone.attributes() {
            "" => text.to_owned(),
            attributes if self.colour => format!("\x1b[{attributes}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    fn message(&mut self, message: &str, tone: Tone) {
        let mut shown = String::new();
        for (number, line) in without_numbers(message).lines().enumerate() {
            let line = harmless(line);
            let is_plain = ["hint: ", "note: ", "  "].iter().any(|label| line.starts_with(label));
            match number {
                0 => shown.push_str(&format!(
                    "{} {}{line}\n",
                    self.toned(&format!("{}:", self.program), tone),
                    self.label
                )),
                _ if is_plain => shown.push_str(&format!("      {}\n", self.toned(&line, Tone::Hint))),
                _ => shown.push_str(&format!("      {}\n", self.toned(&format!("hint: {line}"), Tone::Hint))),
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
    fn colours_follow_the_meaning() {
        let paper = Paper::default();
        let mut text = TextOutput::new(Box::new(paper.clone()), true);
        text.error("bad\nmend it");
        text.warning("odd");
        text.notice("so");
        text.result("1 file\nfailed 0", Tone::Done);
        text.result("0 files", Tone::Plain);
        let expected = "\x1b[31mhaul:\x1b[0m bad\n      \x1b[2mhint: mend it\x1b[0m\n\x1b[33mhaul:\x1b[0m odd\nhaul: so\n\
                        \x1b[32m1 file\x1b[0m\nfailed 0\n0 files\n";
        assert_eq!(paper.text(), expected);
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
