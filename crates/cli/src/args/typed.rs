//! Options in messages as they were typed: `--window`, `-W` or `--from0`, not the names by which haul knows them.

use std::ffi::OsString;

use super::flags::COPY;
use super::meaning::Meaning::{self, Is, With};
use super::names::Named;
use super::{Dialect, letters, names, rsync};

/// A message whose first line names options as in `words`. Hints keep the names that haul's help has.
pub fn as_typed(message: &str, words: &[OsString]) -> String {
    let (first, hints) = message.split_at(message.find('\n').unwrap_or(message.len()));
    let words: Vec<_> = words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()).collect();
    let mut first = first.to_owned();
    for (option, typed) in words.iter().flat_map(|word| other_names(word)) {
        let name = option.split(' ').next().unwrap_or(option.as_str());
        let is_typed = words.iter().any(|word| word.split('=').next() == Some(name));
        for name in [option.as_str(), name].into_iter().filter(|_| !is_typed) {
            first = replaced(&first, name, &typed);
        }
    }
    first + hints
}

/// The options that a word stands for, each with its argument after a space, and the word without its argument.
fn other_names(word: &str) -> Vec<(String, String)> {
    let of_meaning = |meaning: Meaning, typed: &str| -> Vec<_> {
        let options = match meaning {
            Is(options) => options.to_vec(),
            With(option, _) => vec![option],
            _ => Vec::new(),
        };
        options.iter().map(|option| (option.replace('=', " "), typed.to_owned())).collect()
    };
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        let typed = format!("--{name}");
        let of_rsync = rsync::long(name).filter(|_| names::exact(COPY, name).is_none());
        return match (of_rsync, names::long(COPY, Dialect::Haul, name)) {
            (Some((option, false)), _) => of_meaning(option.meaning, &typed),
            (None, Named::One(row)) if row.id != name => vec![(row.typed(), typed)],
            _ => Vec::new(),
        };
    }
    let letters = word.strip_prefix('-').unwrap_or_default();
    let of_letter = |letter: char| of_meaning(letters::meaning(letter, letters.len() > 1), &format!("-{letter}"));
    letters.chars().flat_map(of_letter).collect()
}

/// Replaces an option where it is a whole word.
fn replaced(text: &str, option: &str, typed: &str) -> String {
    let mut parts = text.split(option);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_word = !part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
        shown.push_str(if is_word { typed } else { option });
        shown.push_str(part);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_named_as_it_was_typed() {
        for (line, message, shown) in [
            ("--window 1T a b", "--windowsz 1T: at most 1g", "--window 1T: at most 1g"),
            ("-W --inplace a b", "--inplace cannot be used with --delta off", "--inplace cannot be used with -W"),
            ("-avW a b", "--inplace cannot be used with --delta off", "--inplace cannot be used with -W"),
            (
                "--from0 a b",
                "--null needs a list\nhint: add --infiles FILE",
                "--from0 needs a list\nhint: add --infiles FILE",
            ),
            ("-I a -", "--compare cannot be used with a pipe", "-I cannot be used with a pipe"),
            ("-I --compare=size a -", "--compare cannot be used with a pipe", "--compare cannot be used with a pipe"),
            ("-b a b", "--backup-dir: empty directory name", "--backup-dir: empty directory name"),
            ("a b -- -I", "--compare cannot be used with a pipe", "--compare cannot be used with a pipe"),
            ("a-W b", "--delta off: no", "--delta off: no"),
        ] {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            assert_eq!(as_typed(message, &words), shown, "{line}");
        }
    }
}
