//! haul's errors in bbcp's words.

use crate::commands::dialect_words::{in_words_of, long_option};

/// An error with bbcp's letters for haul's options. Hints with an option that bbcp lacks are omitted.
pub fn in_bbcps_letters(text: &str) -> String {
    in_words_of(text, letter)
}

/// A word with bbcp's letter for a long option, unless it stands `before` the word; `None` if bbcp lacks the option.
fn letter(before: &str, word: &str) -> Option<String> {
    let Some((row, _, rest)) = long_option(word) else { return Some(word.to_owned()) };
    let letter = format!("-{}", row.bbcp?.letter);
    Some(if before.strip_suffix(',') == Some(&letter) { word.to_owned() } else { letter + rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_bbcps_letters_and_those_that_it_lacks_are_no_remedy() {
        for (text, expected) in [
            ("--target-command: the command is empty", "-T: the command is empty"),
            (
                "--unbuffered x: must be s\nhint: did you mean: --unbuffered s",
                "-u x: must be s\nhint: did you mean: -u s",
            ),
            ("a failed\nhint: --report=FILE has more\nhint: try again", "a failed\nhint: try again"),
            ("unknown option --json\nhint: bbcp -h", "unknown option --json\nhint: bbcp -h"),
            ("-s needs one\nhint: -s, --streams N: use N", "-s needs one\nhint: -s, --streams N: use N"),
            ("--/x: -- --no-such", "--/x: -- --no-such"),
        ] {
            assert_eq!(in_bbcps_letters(text), expected);
        }
    }
}
