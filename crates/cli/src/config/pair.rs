//! Pairs of `haul twoway` in configuration files: `[pair.photos]` has the roots and the options of the command.

use std::ffi::OsString;

use haul_proto::path::escape;
use toml::de::{DeTable, DeValue};

use super::file;
use super::profile::PAIR;
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// The words of a pair: its options, and its two roots.
#[derive(Debug, PartialEq, Eq)]
pub struct PairWords {
    /// Options, as on the command line.
    pub options: Vec<OsString>,
    /// The roots.
    pub roots: [OsString; 2],
}

/// Returns the pair of this name in the files by precedence: that of `--config`, or the user's and the system's.
pub fn pair_words(values: &Values, name: &str) -> Result<PairWords, UsageError> {
    let places = match values.last(&flags::CONFIG) {
        Some(named) => vec![named.into()],
        None => file::places(),
    };
    for path in places {
        let Some(text) = file::read(&path)? else { continue };
        if let Some(words) = find(&text, name).map_err(|error| error.at(&file::shown(&path)))? {
            return Ok(words);
        }
    }
    Err(UsageError::new(format!("no pair {} in a configuration file", escape(name.as_bytes())))
        .remedy("haul twoway A B names two directories")
        .remedy("[pair.NAME] in haul's configuration file has roots = [\"A\", \"B\"]: haul help config"))
}

fn find(text: &str, name: &str) -> Result<Option<PairWords>, UsageError> {
    let wrong = |what: &str| UsageError::new(format!("[{PAIR}.{}]: {what}", escape(name.as_bytes())));
    let document = DeTable::parse(text).map_err(|error| UsageError::new(escape(error.message().as_bytes())))?;
    let Some(DeValue::Table(pairs)) = document.get_ref().get(PAIR).map(|value| value.get_ref()) else {
        return Ok(None);
    };
    let Some(DeValue::Table(pair)) = pairs.get(name).map(|value| value.get_ref()) else { return Ok(None) };
    let (mut options, mut roots) = (Vec::new(), Vec::new());
    for (key, value) in pair {
        let key = key.get_ref();
        for word in words_of(value.get_ref()).ok_or_else(|| wrong(&format!("{key}: must be text, a number or true")))? {
            match (&**key, word) {
                ("roots", Some(root)) => roots.push(OsString::from(root)),
                (_, Some(word)) => options.push(format!("--{}={word}", key.replace('_', "-")).into()),
                (_, None) => options.push(format!("--{}", key.replace('_', "-")).into()),
            }
        }
    }
    match roots.try_into() {
        Ok(roots) => Ok(Some(PairWords { options, roots })),
        Err(_) => Err(wrong("needs two roots").remedy("roots = [\"/home/anna/photos\", \"db1:photos\"]")),
    }
}

/// The arguments of a value, one for each repetition; `None` without an argument.
fn words_of(value: &DeValue<'_>) -> Option<Vec<Option<String>>> {
    Some(match value {
        DeValue::Boolean(false) => Vec::new(),
        DeValue::Boolean(true) => vec![None],
        DeValue::String(text) => vec![Some(text.to_string())],
        DeValue::Integer(number) => vec![Some(number.to_string())],
        DeValue::Array(several) => {
            let each = several.iter().map(|one| match one.get_ref() {
                DeValue::Array(_) => None,
                one => words_of(one),
            });
            each.collect::<Option<Vec<_>>>()?.concat()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "streams = 4\n[pair.photos]\nroots = [\"/a\", \"h:b\"]\nprefer = [\"newer\", \"b:*.log\"]\n\
                        batch = true\nkeep-both = false\nmax_delete = 7\n[pair.one]\nroots = [\"/a\"]\n";

    #[test]
    fn a_pair_stands_for_words_of_the_command_line() {
        let PairWords { options, roots } = find(TEXT, "photos").unwrap().unwrap();
        assert_eq!(roots, ["/a", "h:b"]);
        let mut options: Vec<_> = options.iter().map(|word| word.to_str().unwrap()).collect();
        options.sort_unstable();
        assert_eq!(options, ["--batch", "--max-delete=7", "--prefer=b:*.log", "--prefer=newer"]);
    }

    #[test]
    fn pairs_that_are_missing_or_incomplete_are_named() {
        assert_eq!(find(TEXT, "other").unwrap(), None);
        assert!(find(TEXT, "one").unwrap_err().to_string().contains("[pair.one]: needs two roots"));
        assert!(find("[pair.x]\nroots = 1979-05-27", "x").is_err());
    }
}
