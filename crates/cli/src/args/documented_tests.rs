//! `docs/BBCP.md` has every option of bbcp, and commands of the README and of the guide are parsed.
//! (`xtask/src/named_tests.rs` looks for the tests that documents name.)

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{COPY, OptionRow};
use crate::args::Dialect;
use crate::args::parse::{Command, parse};
use crate::resolve::{plan, sync};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of the table: what is typed, what haul does, the tests.
fn documented() -> Vec<[String; 3]> {
    let text = std::fs::read_to_string(root().join("docs/BBCP.md")).unwrap();
    let cells = |line: &str| -> Option<[String; 3]> {
        let cells: Vec<_> = line.strip_prefix("| `-")?.strip_suffix('|')?.split(" | ").map(str::to_owned).collect();
        let [typed, does, tests] = cells.try_into().unwrap_or_else(|cells| panic!("three cells: {cells:?}"));
        Some([format!("`-{typed}"), does, tests])
    };
    text.lines().filter_map(cells).collect()
}

/// Words between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_option_of_bbcp_has_a_row_with_its_status() {
    let rows = documented();
    let bbcps = COPY.iter().filter(|row| row.bbcp.is_some());
    for row in bbcps {
        let letters = row
            .bbcp
            .into_iter()
            .flat_map(|bbcp| [Some(bbcp.letter), bbcp.other_letter])
            .flatten()
            .map(|letter| format!("-{letter}"));
        let named = |typed: &str, word: &str| quoted(typed).any(|quoted| quoted.split([' ', ',']).next() == Some(word));
        for letter in letters {
            let found: Vec<_> = rows.iter().filter(|[typed, ..]| named(typed, &letter)).collect();
            let [[typed, does, tests]] = found[..] else { panic!("{letter} has {} rows", found.len()) };
            if let Some((name, _)) = row.bbcp.and_then(|bbcp| bbcp.long) {
                assert!(named(typed, &format!("--{name}")), "--{name} stands beside {letter}");
            }
            let OptionRow { refusal, .. } = row;
            let is_missing = does.contains("not there yet") || does.contains("refused:");
            assert_eq!(refusal.is_some(), is_missing, "{letter}: {does}");
            assert!(
                does.starts_with("not there yet") || quoted(tests).next().is_some(),
                "{letter} is shown by no test"
            );
        }
    }
}

/// The pages with commands for users.
fn guide() -> Vec<PathBuf> {
    let folders = ["docs/start", "docs/guide", "docs/operating"].map(|part| root().join(part));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let pages =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages.chain([root().join("README.md")]).collect()
}

/// The lines in `sh` blocks that begin with haul, with their numbers, but those with
/// expansions of the shell.
fn haul_lines(text: &str) -> Vec<(usize, &str)> {
    let (mut fence, mut found) = (None, Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("```"), fence) {
            (Some(mark), None) => fence = Some(mark),
            (Some(_), Some(_)) => fence = None,
            (None, Some("sh")) if line.starts_with("haul ") && !line.contains("${") => found.push((number, line)),
            (None, _) => {}
        }
    }
    found
}

/// The words of the first command in a line of the shell. Variables and braces stay as they are.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | ';' | '&' | '<' | '>') => break,
            (None, '#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Whether an error is due to the place of the test: files that are not there, and no terminal.
fn is_of_the_place(said: &str) -> bool {
    ["No such file", "needs a terminal"].iter().any(|why| said.contains(why))
}

/// What haul says against a command line. Each file is there, but none with the name of the command or with a colon.
fn refusal(words: &[String]) -> Option<String> {
    let command = words.first();
    if command.is_some_and(|command| ["rsync", "scp", "bbcp"].contains(&command.as_str())) {
        return None;
    }
    let exists = |name: &OsStr| {
        let name = name.to_string_lossy();
        command.is_none_or(|command| *command != name) && !name.contains(':')
    };
    let planned = match parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &exists) {
        Ok(Command::Copy(values, operands)) => plan(&values, &operands, false),
        Ok(Command::Sync(values, operands)) => sync(&values, &operands, false),
        Ok(_) => return None,
        Err(error) => Err(error),
    };
    planned.err().map(|error| error.to_string()).filter(|said| !is_of_the_place(said))
}

#[test]
fn commands_of_the_documents_are_accepted() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in guide() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (number, line) in haul_lines(&text) {
            count += 1;
            wrong.extend(
                refusal(&shell_words(line)[1..]).map(|said| format!("{}:{number}: {line}\n{said}", page.display())),
            );
        }
    }
    assert!(count > 60 && wrong.is_empty(), "{} of {count} commands:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_false_command_is_refused() {
    let refused = |line| refusal(&shell_words(line)[1..]).is_some();
    for wrong in
        ["haul --nonsense a db1:", "haul -s 0 a db1:", "haul sync --chmod=u+q a/ db1:", "haul net", "haul -rj a db1:"]
    {
        assert!(refused(wrong), "{wrong}");
    }
    for right in ["haul -r run7 db1:   # a comment", "haul --pipe i 'a; b' db1:c | cat", "haul sync a/ db1: > log"] {
        assert!(!refused(right), "{right}");
    }
}
