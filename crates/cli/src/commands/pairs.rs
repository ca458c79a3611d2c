//! `haul --pairs FILE`: copies the source of each line to the target of that line.
//!
//! Lines in a row that keep names, from one host into one directory, are one copy. Each other line is a copy of its own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_base::sys::describe::describe;
use haul_control::operand::host_prefix;
use haul_proto::path::escape;
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::units;

use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::commands::configured::between;
use crate::commands::copy;

/// Largest list, in bytes.
const LIST_MAX: u64 = 1 << 30;
/// Most sources of one copy: each is an operand.
const TOGETHER_MAX: usize = 4096;

/// A source and its target.
type Pair = (OsString, OsString);

/// Copies all pairs, also after failures. Returns the status of the first copy that failed.
pub fn run(values: &Values) -> anyhow::Result<Exit> {
    let list = values.last(&flags::PAIRS).unwrap_or_default();
    let text = read(list).map_err(|error| UsageError::new(format!("--pairs {}: {}", shown(list), describe(&error))))?;
    let pairs = parse(&text, values.is_set(&flags::NULL)).map_err(|error| error_in(list, &error))?;
    let count = pairs.len();
    let (mut exit, mut copies, mut failed) = (Exit::Done, 0, 0);
    for operands in together(pairs) {
        copies += 1;
        let ended = between(values.clone(), &operands).and_then(|values| copy::run(&values, &operands));
        let ended = ended.unwrap_or_else(|error| {
            show::stderr().error(&error.to_string());
            if error.is::<UsageError>() { Exit::Usage } else { Exit::Failed }
        });
        failed += u64::from(!ended.is_complete());
        exit = if exit.is_complete() { ended } else { exit };
        if ended == Exit::Interrupted {
            break;
        }
    }
    if failed > 0 {
        let copies = units::counted(copies, "copy", "copies");
        show::stderr().notice(&format!("{failed} of {copies} failed, for {count} pairs"));
    }
    Ok(exit)
}

fn read(list: &OsStr) -> io::Result<Vec<u8>> {
    let source: Box<dyn Read> = if list == "-" { Box::new(io::stdin()) } else { Box::new(fs::File::open(list)?) };
    let mut text = Vec::new();
    source.take(LIST_MAX + 1).read_to_end(&mut text)?;
    match text.len() as u64 > LIST_MAX {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "larger than 1 GiB")),
        false => Ok(text),
    }
}

fn error_in(list: &OsStr, why: &str) -> UsageError {
    UsageError::new(format!("--pairs {}: {why}", shown(list)))
        .remedy("each line has a source and a target; \"\" or '' around a path protect blanks")
}

fn shown(word: &OsStr) -> String {
    escape(word.as_bytes())
}

/// The pairs of a list: words of lines, or paths that end with NUL. Empty lines and comments do not count.
fn parse(text: &[u8], is_null: bool) -> Result<Vec<Pair>, String> {
    if is_null {
        let paths: Vec<_> = text.strip_suffix(b"\0").unwrap_or(text).split(|byte| *byte == 0).collect();
        return match paths.as_chunks() {
            (pairs, []) => Ok(pairs.iter().map(|[source, target]| (word(source), word(target))).collect()),
            _ => Err("the last source has no target".to_owned()),
        };
    }
    let mut pairs = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let at = |why: &str| format!("line {}: {why}", number + 1);
        let mut words = words(line).map_err(at)?.into_iter();
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some(source), Some(target), None) => pairs.push((source, target)),
            (Some(_), None, _) => return Err(at("no target")),
            (_, _, Some(_)) => return Err(at("more than a source and a target")),
        }
    }
    Ok(pairs)
}

fn word(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// The words of a line. Quotes protect blanks; a number sign in front makes a comment.
fn words(line: &[u8]) -> Result<Vec<OsString>, &'static str> {
    let (mut words, mut bytes) = (Vec::new(), line.iter().copied().peekable());
    loop {
        while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
        match bytes.peek() {
            None => return Ok(words),
            Some(b'#') if words.is_empty() => return Ok(words),
            Some(_) => {}
        }
        let mut word = Vec::new();
        while let Some(byte) = bytes.next_if(|byte| !byte.is_ascii_whitespace()) {
            if !matches!(byte, b'"' | b'\'') {
                word.push(byte);
                continue;
            }
            loop {
                match bytes.next() {
                    None => return Err("a quotation mark is not closed"),
                    Some(end) if end == byte => break,
                    Some(quoted) => word.push(quoted),
                }
            }
        }
        words.push(OsString::from_vec(word));
    }
}

/// The operands of each copy.
fn together(pairs: Vec<Pair>) -> Vec<Vec<OsString>> {
    let mut copies: Vec<(Vec<OsString>, Option<OsString>)> = Vec::new();
    for (source, target) in pairs {
        let place = kept_name(&source, &target);
        match copies.last_mut() {
            Some((operands, Some(last)))
                if place.as_ref() == Some(last)
                    && operands.len() < TOGETHER_MAX
                    && host_prefix(&operands[0]) == host_prefix(&source) =>
            {
                operands.insert(operands.len() - 1, source);
            }
            _ => copies.push((vec![source, place.clone().unwrap_or(target)], place)),
        }
    }
    copies.into_iter().map(|(operands, _)| operands).collect()
}

/// The target's directory with its slash, if the target has the source's name in it.
fn kept_name(source: &OsStr, target: &OsStr) -> Option<OsString> {
    let (source, target) = (source.as_bytes(), target.as_bytes());
    let name_from = |path: &[u8]| path.iter().rposition(|byte| matches!(byte, b'/' | b':')).map_or(0, |at| at + 1);
    let slash = target.iter().rposition(|byte| *byte == b'/')?;
    let name = &target[slash + 1..];
    let is_kept = !matches!(name, b"" | b"." | b"..") && source[name_from(source)..] == *name;
    is_kept.then(|| OsString::from_vec(target[..=slash].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(text: &str) -> Vec<String> {
        let copies = together(parse(text.as_bytes(), false).unwrap());
        copies.iter().map(|operands| operands.join(OsStr::new(" ")).into_string().unwrap()).collect()
    }

    #[test]
    fn lines_that_keep_names_are_one_copy() {
        let text = "# files of run 7\n/d/a h:/b/a\n/d/c  h:/b/c\n\n/d/e h:/b/f\nh:g \"my dir/g\"\ng 'my dir/g'\nx y\n";
        assert_eq!(copies(text), ["/d/a /d/c h:/b/", "/d/e h:/b/f", "h:g my dir/", "g my dir/", "x y"]);
        assert_eq!(copies("a b/\na b/.\n"), ["a b/", "a b/."]);
    }

    #[test]
    fn lines_without_both_ends_are_named() {
        let error = |text: &str, is_null| parse(text.as_bytes(), is_null).unwrap_err();
        assert_eq!(error("a b\nc\n", false), "line 2: no target");
        assert_eq!(error("a b c", false), "line 1: more than a source and a target");
        assert_eq!(error("'a b", false), "line 1: a quotation mark is not closed");
        assert_eq!(error("a\0b\0c\0", true), "the last source has no target");
        let pairs = parse(b"a b\0c\nd\0", true).unwrap();
        assert_eq!(pairs, [("a b".into(), "c\nd".into())]);
    }
}
