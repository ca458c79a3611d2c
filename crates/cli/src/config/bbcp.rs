//! bbcp's files of options, under its name: `-C FILE`, and `bbcp_CONFIGFN` or `~/.bbcp.cf`.
//!
//! Each line has an option as on the command line; the rest of the line, spaces included, is its argument. A file takes
//! effect at its position: later options on the command line take precedence.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{Given, file};
use crate::args::flags::{self, COPY};
use crate::args::local_files::LocalDisk;
use crate::args::parse::refused;
use crate::args::scan::{Grammar, Scanned, scan};
use crate::args::values::Values;
use crate::args::{Dialect, UsageError};
use crate::resolve::settings;

/// Deepest nesting of files.
const DEPTH_MAX: usize = 4;

/// Completes the command line with the options of files.
pub fn complete(values: &Values) -> Result<Values, UsageError> {
    let mut given = Vec::new();
    if let Some(path) = everybodys() {
        add(&mut given, &path, 0)?;
    }
    for (row, argument) in values.given() {
        match argument {
            Some(path) if row.is(&flags::CONFIG) => add(&mut given, Path::new(path), 0)?,
            _ => given.push((*row, argument.clone())),
        }
    }
    Ok(Values::new(values.table(), Dialect::Bbcp, given))
}

/// The default file.
fn everybodys() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let at_home = || variable("HOME").map(|home| home.join(".bbcp.cf")).filter(|path| path.exists());
    variable("bbcp_CONFIGFN").or_else(at_home)
}

/// Adds the options of a file.
fn add(given: &mut Vec<Given>, path: &Path, depth: usize) -> Result<(), UsageError> {
    let shown = file::shown(path);
    let text = file::read(path)?.ok_or_else(|| UsageError::new(format!("{shown}: no such file")))?;
    if depth == DEPTH_MAX {
        return Err(UsageError::new(format!("{shown}: option files include each other")).remedy("omit one -C"));
    }
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let here = |error: UsageError| error.at(&format!("{shown}:{}", at + 1));
        for (row, argument) in options(line).map_err(here)? {
            match argument {
                Some(path) if row.is(&flags::CONFIG) => add(given, Path::new(&path), depth + 1)?,
                argument => given.push((row, argument)),
            }
        }
    }
    Ok(())
}

/// The options of a line.
fn options(line: &str) -> Result<Vec<Given>, UsageError> {
    let (option, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let words = [option, argument.trim_start()].into_iter().filter(|word| !word.is_empty());
    let grammar = Grammar { dialect: Dialect::Bbcp, operands: 0, has_rest: false, files: &LocalDisk, command: "" };
    let Scanned { values, operands, .. } = scan(COPY, words.map(OsString::from).collect(), grammar)?;
    if !option.starts_with('-') {
        return Err(UsageError::new(format!("{}: not an option", file::shown(Path::new(line)))));
    }
    let one_a_line = |error: UsageError| error.remedy("a line has one option and its argument");
    if let Some(word) = operands.first() {
        let word = file::shown(Path::new(OsStr::new(word)));
        return Err(one_a_line(UsageError::new(format!("{word}: not an argument of {option}"))));
    }
    for (row, argument) in values.given() {
        if let Some(why) = row.refusal {
            return Err(refused(row, why));
        }
        if row.is_any(&[&flags::HELP, &flags::VERSION, &flags::LICENSE]) {
            return Err(UsageError::new(format!("{}: only valid on the command line", row.typed())));
        }
        settings(&Values::new(COPY, Dialect::Bbcp, vec![(row, argument.clone())]), false)
            .map_err(|error| if argument.is_some() { one_a_line(error) } else { error })?;
    }
    Ok(values.given().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options_of(lines: &str) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("options");
        std::fs::write(&path, lines.replace("HERE", &dir.path().to_string_lossy())).unwrap();
        let mut given = Vec::new();
        let here = dir.path().to_string_lossy().into_owned();
        add(&mut given, &path, 0).map_err(|error| error.to_string().replace(&here, ""))?;
        let shown = |(row, argument): Given| match argument {
            Some(argument) => format!("{} {}", row.id, argument.to_string_lossy()),
            None => row.id.to_owned(),
        };
        Ok(given.into_iter().map(shown).collect())
    }

    #[test]
    fn each_line_has_an_option_and_the_rest_of_it_is_its_argument() {
        let lines = "# ours\n\n-S ssh -x -a %I -l %U %H bin/bbcp\n-rf\n-w 8m  \n--streams 4\n-4\n-c 3\n";
        let expected = [
            "source-command ssh -x -a %I -l %U %H bin/bbcp",
            "recursive",
            "force",
            "windowsz 8m",
            "streams 4",
            "ipv4",
            "compress 3",
        ];
        assert_eq!(options_of(lines).unwrap(), expected);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let all = [
            "-r\n-s 999",
            "-P 2 -V",
            "-r x",
            "streams = 4",
            "--json",
            "-h",
            "-L x",
            "-C HERE/options",
            "-s",
            "-C /absent/file",
        ];
        let errors =
            all.map(|lines| format!("{lines}\n    {}", options_of(lines).unwrap_err().replace('\n', "\n    ")));
        insta::assert_snapshot!(errors.join("\n"), @r#"
        -r
        -s 999
            /options:2: --streams 999: must be a whole number from 1 to 256
            hint: a line has one option and its argument
        -P 2 -V
            /options:1: --progress 2 -V: must be a whole number from 1 to 86400
            hint: a line has one option and its argument
        -r x
            /options:1: x: not an argument of -r
            hint: a line has one option and its argument
        streams = 4
            /options:1: streams = 4: not an option
        --json
            /options:1: unknown option --json
            hint: bbcp -h lists all options
        -h
            /options:1: --help: only valid on the command line
        -L x
            /options:1: -L: haul does not write NetLogger's events
            hint: --json gives the events of a copy, one object a line
        -C HERE/options
            /options: option files include each other
            hint: omit one -C
        -s
            /options:1: --streams needs an argument
            hint: -s, --streams N: use 1 to 256 parallel streams (default: automatic)
        -C /absent/file
            /absent/file: no such file
        "#);
    }
}
