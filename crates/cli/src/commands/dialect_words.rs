//! haul's errors in the words of the program whose command line was typed.

use crate::args::flags::COPY;
use crate::args::row::OptionRow;

/// An error in another program's words. `translate` gets each word and the one before it. Hints with a word for which
/// it returns `None` are omitted.
pub fn in_words_of(text: &str, translate: impl Fn(&str, &str) -> Option<String>) -> String {
    let lines = text.lines().enumerate().filter_map(|(at, line)| {
        let mut before = "";
        let words = line.split(' ').map(|word| translate(std::mem::replace(&mut before, word), word));
        match words.collect::<Option<Vec<_>>>() {
            Some(words) => Some(words.join(" ")),
            None => (at == 0).then(|| line.to_owned()),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The row of haul's option that this word begins with, the option as written, and the rest of the word.
pub fn long_option(word: &str) -> Option<(&'static OptionRow, &str, &str)> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let end = word.find(|letter| !is_of_name(letter)).unwrap_or(word.len());
    let (option, rest) = word.split_at(end);
    let name = option.strip_prefix("--")?;
    COPY.iter().find(|row| row.long_forms().any(|form| form == name)).map(|row| (row, option, rest))
}
