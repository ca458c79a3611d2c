//! The options in effect of a command line.

use std::ffi::OsStr;

use super::words::{RsyncLine, TypedOption};

/// The options that `-a` stands for.
const ARCHIVE: [&str; 7] = ["recursive", "links", "perms", "times", "group", "owner", "D"];

/// The name of an option; its letter, if it has no name.
pub(super) fn name(option: &TypedOption) -> String {
    match (option.option.long, option.option.letter) {
        ("", Some(letter)) => letter.to_string(),
        (long, _) => long.to_owned(),
    }
}

/// Options in effect: later ones replace earlier ones, and `--no-NAME` removes them.
pub(super) struct Effective<'l> {
    line: &'l RsyncLine,
}

impl<'l> Effective<'l> {
    /// The options in effect of a line.
    pub(super) fn of(line: &'l RsyncLine) -> Self {
        Self { line }
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, wanted: &str) -> bool {
        self.last(wanted).is_some_and(|option| !option.is_negated)
    }

    /// Whether a switch is off by `--no-NAME`.
    pub(super) fn is_off(&self, wanted: &str) -> bool {
        self.last(wanted).is_some_and(|option| option.is_negated)
    }

    pub(super) fn last(&self, wanted: &str) -> Option<&TypedOption> {
        let means = |option: &&TypedOption| {
            let name = name(option);
            name == wanted
                || (name == "archive" && ARCHIVE.contains(&wanted))
                || (matches!(name.as_str(), "D" | "archive") && matches!(wanted, "devices" | "specials"))
        };
        self.line.options.iter().rfind(means)
    }

    /// Whether a switch is on by its own name, not by `-a`.
    pub(super) fn is_named(&self, wanted: &str) -> bool {
        self.line.options.iter().rfind(|option| name(option) == wanted).is_some_and(|option| !option.is_negated)
    }

    pub(super) fn count(&self, wanted: &str) -> u8 {
        let typed = self.line.options.iter().filter(|option| name(option) == wanted && !option.is_negated);
        u8::try_from(typed.count()).unwrap_or(u8::MAX)
    }

    /// Whether `--info` or `--debug` names a kind of message.
    pub(super) fn shows(&self, option: &str, wanted: &str) -> bool {
        let arguments = self.line.options.iter().filter(|typed| name(typed) == option);
        let words = arguments.filter_map(|option| option.argument.as_deref()?.to_str());
        let level =
            |word: &str| word.strip_prefix(wanted).or_else(|| word.strip_prefix("all")).map(|level| level != "0");
        words
            .flat_map(|words| words.split(','))
            .filter_map(|word| level(&word.to_lowercase()))
            .next_back()
            .unwrap_or(false)
    }

    pub(super) fn argument(&self, wanted: &str) -> Option<&OsStr> {
        self.last(wanted).and_then(|option| option.argument.as_deref())
    }
}
