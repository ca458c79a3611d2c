//! Options whose argument may be left out, and then means what the table says: `-c`, `-c 3`, `-rc`, `--compress=zstd`.
//!
//! The word behind such an option is its argument only if it is one of the words that the option knows; else it is an
//! operand, as in `haul -c run7.tar db1:`; one that takes a directory takes an absolute path with a slash at its end, as
//! in `-a /home/u/`. clap cannot tell, so that the words are completed before it sees them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::table::{Row, Takes};
use super::time::parse_time;

/// Puts the argument behind each such option that stands without one, or attaches the one that follows.
pub fn complete(table: &[Row], words: Vec<OsString>) -> Vec<OsString> {
    let mut completed = Vec::with_capacity(words.len());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            completed.push(word);
            completed.extend(words);
            break;
        }
        completed.push(match without_argument(table, &word) {
            Some(Takes::Word { known, absent, .. }) => {
                let given = words.next_if(|next| known.iter().any(|word| next == word));
                attached(word, &given.unwrap_or_else(|| absent.into()))
            }
            Some(Takes::Time { absent, .. }) => {
                let given = words.next_if(|next| next.to_str().is_some_and(|next| parse_time(next).is_some()));
                attached(word, &given.unwrap_or_else(|| absent.into()))
            }
            Some(Takes::Place(_)) => match words.next_if(|next| is_place(next)) {
                Some(place) => OsString::from_vec([word.as_bytes(), b"=", place.as_bytes()].concat()),
                None => word,
            },
            _ => word,
        });
    }
    completed
}

fn is_place(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    bytes.starts_with(b"/") && bytes.ends_with(b"/")
}

/// How the option takes its argument that `word` ends with.
fn without_argument(table: &[Row], word: &OsStr) -> Option<Takes> {
    let bytes = word.as_bytes();
    if let Some(long) = bytes.strip_prefix(b"--") {
        return table.iter().find(|row| row.long && row.id.as_bytes() == long).map(|row| row.takes);
    }
    let (last, before) = bytes.strip_prefix(b"-")?.split_last()?;
    let row = |letter: &u8| table.iter().find(|row| row.letter == Some(char::from(*letter)));
    // Behind a letter that takes an argument, what follows is that.
    let flags = |letter: &u8| row(letter).is_some_and(|row| matches!(row.takes, Takes::Nothing | Takes::Repeats));
    before.iter().all(flags).then(|| row(last).map(|row| row.takes)).flatten()
}

/// `--compress=3` or `-rc3`.
fn attached(option: OsString, argument: &OsStr) -> OsString {
    let equals = if option.as_bytes().starts_with(b"--") { &b"="[..] } else { b"" };
    OsString::from_vec([option.as_bytes(), equals, argument.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::super::table::COPY;
    use super::*;

    fn completed(line: &str) -> String {
        let words = complete(COPY, line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_word_that_the_option_knows_is_its_argument_and_any_other_an_operand() {
        for (typed, meant) in [
            ("-c a b", "-cauto a b"),
            ("-c 3 a b", "-c3 a b"),
            ("-c off a b", "-coff a b"),
            ("a b -c", "a b -cauto"),
            ("-c 33 b", "-cauto 33 b"),
            ("-c ./3 b", "-cauto ./3 b"),
            ("--compress lz4 b", "--compress=lz4 b"),
            ("--compress a b", "--compress=auto a b"),
            ("-rfc 19 a b", "-rfc19 a b"),
            ("-rc -p a b", "-rcauto -p a b"),
            ("-k -a /home/u/ -r a b", "-k -a=/home/u/ -r a b"),
            ("--append /j/ a b", "--append=/j/ a b"),
        ] {
            assert_eq!(completed(typed), meant, "{typed}");
        }
    }

    #[test]
    fn what_has_an_argument_or_is_another_s_is_left_alone() {
        for typed in [
            "-c3 a b",
            "--compress=zstd 3 b",
            "-ic 3 b",
            "-s 3 a b",
            "- 3 b",
            "a 3",
            "-r -- -c 3",
            "-C 3 b",
            "-cr 3",
            "-a a b",
            "-a /a b",
            "-a",
        ] {
            assert_eq!(completed(typed), typed);
        }
    }
}
