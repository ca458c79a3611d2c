//! rsync's command line: options and operands by its own rules, without their meaning; and haul's errors with rsync's
//! options.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_control::operand::host_prefix;
use haul_proto::path::escape;

use crate::args::UsageError;
use crate::args::meaning::Meaning;
use crate::args::rsync::{self, RsyncOption};
use crate::commands::dialect_words::{in_words_of, long_option};

/// An option as typed.
pub struct TypedOption {
    /// The option.
    pub option: &'static RsyncOption,
    /// Its argument.
    pub argument: Option<OsString>,
    /// Whether it was typed as `--no-NAME`.
    pub is_negated: bool,
}

/// A command line of rsync.
#[derive(Default)]
pub struct RsyncLine {
    /// The options, in their order; `-a` stands for itself.
    pub options: Vec<TypedOption>,
    /// The operands.
    pub operands: Vec<OsString>,
}

impl RsyncLine {
    /// Parses the words after the program's name.
    pub fn parse(words: Vec<OsString>) -> Result<Self, UsageError> {
        let mut line = Self::default();
        let mut words = VecDeque::from(words);
        while let Some(word) = words.pop_front() {
            match word.as_bytes() {
                b"--" => line.operands.extend(words.drain(..)),
                [b'-', b'-', long @ ..] => line.long(long, &mut words)?,
                [b'-', letters @ ..] if !letters.is_empty() => line.letters(letters, &mut words)?,
                _ => line.operands.push(word),
            }
        }
        Ok(line)
    }

    /// With `--old-args`, a blank separates two sources of a host, as its shell would see them.
    pub fn split_old_operands(&mut self, environment: Option<&OsStr>) {
        let typed = self.options.iter().rfind(|typed| typed.option.long == "old-args").map(|typed| !typed.is_negated);
        if !typed.unwrap_or_else(|| environment.is_some_and(|value| !value.is_empty() && value != "0")) {
            return;
        }
        let target = if self.operands.len() > 1 { self.operands.pop() } else { None };
        let split = |operand: OsString| -> Vec<OsString> {
            let (host, path) = operand.as_bytes().split_at(host_prefix(&operand).len());
            let paths = path.split(|byte| *byte == b' ').filter(|path| !path.is_empty());
            match host.is_empty() {
                true => vec![operand],
                false => paths.map(|path| OsString::from_vec([host, path].concat())).collect(),
            }
        };
        self.operands = std::mem::take(&mut self.operands).into_iter().flat_map(split).chain(target).collect();
    }

    fn long(&mut self, typed: &[u8], words: &mut VecDeque<OsString>) -> Result<(), UsageError> {
        let (name, attached) = match typed.iter().position(|byte| *byte == b'=') {
            Some(at) => (&typed[..at], Some(OsStr::from_bytes(&typed[at + 1..]).to_owned())),
            None => (typed, None),
        };
        let shown = format!("--{}", escape(name));
        let found = std::str::from_utf8(name).ok().and_then(rsync::long);
        let (option, is_negated) = found.ok_or_else(|| unknown(&shown))?;
        let argument = match (option.takes && !is_negated, attached) {
            (true, None) => Some(words.pop_front().ok_or_else(|| missing(&shown))?),
            (true, attached) => attached,
            (false, None) => None,
            (false, Some(_)) => return Err(UsageError::new(format!("{shown}: option does not take an argument"))),
        };
        self.options.push(TypedOption { option, argument, is_negated });
        Ok(())
    }

    fn letters(&mut self, letters: &[u8], words: &mut VecDeque<OsString>) -> Result<(), UsageError> {
        for (at, byte) in letters.iter().enumerate() {
            let shown = format!("-{}", escape(&[*byte]));
            let option = rsync::letter(char::from(*byte)).ok_or_else(|| unknown(&shown))?;
            if !option.takes {
                self.options.push(TypedOption { option, argument: None, is_negated: false });
                continue;
            }
            let attached = &letters[at + 1..];
            let attached = attached.strip_prefix(b"=").unwrap_or(attached);
            let argument = match attached.is_empty() {
                true => words.pop_front().ok_or_else(|| missing(&shown))?,
                false => OsString::from_vec(attached.to_vec()),
            };
            self.options.push(TypedOption { option, argument: Some(argument), is_negated: false });
            return Ok(());
        }
        Ok(())
    }
}

/// An error with rsync's options for haul's. Hints with an option that rsync lacks are omitted.
pub fn in_rsyncs_words(text: &str) -> String {
    in_words_of(text, |_, word| {
        let Some((_, option, rest)) = long_option(word) else { return Some(word.to_owned()) };
        let is_same = |known: &&RsyncOption| matches!(known.meaning, Meaning::Is([same]) if *same == option);
        let known = rsync::OPTIONS.iter().find(is_same).filter(|known| !known.long.is_empty());
        let of_name = || option.strip_prefix("--").and_then(rsync::long).map(|_| option.to_owned());
        known.map(|known| format!("--{}", known.long)).or_else(of_name).map(|option| option + rest)
    })
}

fn unknown(shown: &str) -> UsageError {
    UsageError::new(format!("{shown}: unknown option"))
}

fn missing(shown: &str) -> UsageError {
    UsageError::new(format!("{shown}: missing argument"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_rsyncs_options() {
        for (text, expected) in [
            ("no x\n--mkdir creates it", "no x\n--mkpath creates it"),
            ("no x\ncreate it, or add --mkdir", "no x\ncreate it, or add --mkpath"),
            ("inside\nskip it (--exclude)", "inside\nskip it (--exclude)"),
            ("lost\n--transport ssh, or wait\nrerun", "lost\nrerun"),
        ] {
            assert_eq!(in_rsyncs_words(text), expected);
        }
    }

    #[test]
    fn old_arguments_are_split_at_blanks() {
        let operands = |words: &[&str], environment: Option<&str>| {
            let mut line = RsyncLine::parse(words.iter().map(Into::into).collect()).unwrap();
            line.split_old_operands(environment.map(OsStr::new));
            line.operands
        };
        let split = ["host:one", "host:two", "a b", "host:t u"];
        assert_eq!(operands(&["--old-args", "host:one  two", "a b", "host:t u"], None), split);
        assert_eq!(operands(&["host:one two", "a b", "host:t u"], Some("1")), split);
        assert_eq!(operands(&["host:one two", "t"], None), ["host:one two", "t"]);
        assert_eq!(operands(&["--no-old-args", "host:one two", "t"], Some("1")), ["host:one two", "t"]);
    }
}
