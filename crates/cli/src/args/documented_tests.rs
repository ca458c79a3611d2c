//! `docs/BBCP.md` has every option of bbcp, and commands of the README and of the guide are parsed.
//! (`xtask/src/named_tests.rs` looks for the tests that documents name.)

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{COPY, OptionRow};
use crate::args::commands::{self, COMMANDS, TOPICS};
use crate::args::parse::{Command, parse};
use crate::args::{Dialect, help, letters, manual};
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

/// What haul says against a command line. Each file is there, but none with the name of the command, with a colon or
/// with a quantity as its name.
fn refusal(words: &[String]) -> Option<String> {
    let command = words.first();
    if command.is_some_and(|command| ["rsync", "scp", "bbcp"].contains(&command.as_str())) {
        return None;
    }
    let exists = |name: &OsStr| {
        let name = name.to_string_lossy();
        let unit = name.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_quantity = unit.len() < name.len() && unit.len() <= 1;
        command.is_none_or(|command| *command != name) && !name.contains(':') && !is_quantity
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

/// The texts that the program prints of itself, by their topics.
fn printed_texts() -> Vec<(&'static str, String)> {
    let commands = COMMANDS.iter().map(|row| (row.name, help::command(row.name)));
    let topics = TOPICS.iter().map(|topic| (*topic, help::on(Dialect::Haul, OsStr::new(topic)).unwrap()));
    commands.chain(topics).collect()
}

/// The examples in a text: the beginnings of lines, up to wide spaces, in paragraphs where all begin with haul, but
/// those with metasyntax.
fn examples(text: &str) -> impl Iterator<Item = &str> {
    let is_example = |paragraph: &&str| paragraph.lines().all(|line| line.trim_start().starts_with("haul "));
    let paragraphs = text.split("\n\n").filter(is_example);
    let parts = paragraphs.flat_map(str::lines).flat_map(|line| line.split("  ")).map(str::trim);
    let is_pattern = |part: &str| {
        ["[", "..", "{", "(", ": ", "SHELL"].iter().any(|mark| part.contains(mark))
            || part.contains('|') && !part.contains(" | ")
    };
    parts.filter(move |part| part.starts_with("haul ") && !is_pattern(part))
}

#[test]
fn examples_of_the_manual_and_of_all_help_are_accepted() {
    let of_manual = manual::EXAMPLES.map(|(line, _)| ("man", line.to_owned()));
    let texts = printed_texts();
    let of_help = texts.iter().flat_map(|(topic, text)| examples(text).map(|line| (*topic, line.to_owned())));
    let all: Vec<_> = of_manual.into_iter().chain(of_help).collect();
    let refused = |line: &str| refusal(&shell_words(line)[1..]);
    let wrong: Vec<_> = all.iter().filter_map(|(of, line)| Some(format!("{of}: {line}\n{}", refused(line)?))).collect();
    assert!(all.len() > 25 && wrong.is_empty(), "{} of {} examples:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

/// Letters in the prose of a command's help, such as `-r, -p and -f`, are options of that command.
#[test]
fn letters_in_the_prose_of_help_are_those_of_the_command() {
    for row in &COMMANDS {
        let text = help::command(row.name);
        let prose = text.lines().filter(|line| !line.starts_with("  ") && !line.contains("haul "));
        for word in prose.flat_map(|line| line.split([' ', ',', '.', ';', '('])) {
            let Some(letter) = word.strip_prefix('-').filter(|rest| rest.len() == 1) else { continue };
            let letter = letter.chars().next().unwrap();
            let options = commands::options(row.name);
            let is_known = options.iter().any(|row| row.letter == Some(letter))
                || letters::named(letter).is_some_and(|named| options.iter().any(|row| row.is(named)));
            assert!(is_known || ["demo", "job"].contains(&row.name), "haul {}: -{letter}", row.name);
        }
    }
}

/// What haul suggests after a copy is an option of a copy.
#[test]
fn remedies_of_the_diagnosis_are_accepted() {
    let text = std::fs::read_to_string(root().join("docs/DIAGNOSIS.md")).unwrap();
    let remedies: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("    try ") || line.starts_with("    $ haul "))
        .filter_map(|line| line.split_once("$ haul ").or_else(|| line.rsplit_once(": ")))
        .map(|(_, words)| words)
        .filter(|words| !words.starts_with("sysctl"))
        .collect();
    for words in &remedies {
        let operands = if words.contains("db1:") { "" } else { " big.db db1:" };
        assert_eq!(refusal(&shell_words(&format!("{words}{operands}"))), None, "{words}");
    }
    assert!(remedies.len() > 3, "{remedies:?}");
}

#[test]
fn a_false_command_is_refused() {
    let refused = |line| refusal(&shell_words(line)[1..]).is_some();
    for wrong in [
        "haul --nonsense a db1:",
        "haul -s 0 a db1:",
        "haul sync --chmod=u+q a/ db1:",
        "haul net",
        "haul -rj a db1:",
        "haul -x 50m a db1:",
        "haul net -x h",
    ] {
        assert!(refused(wrong), "{wrong}");
    }
    for right in ["haul -r run7 db1:   # a comment", "haul --pipe i 'a; b' db1:c | cat", "haul sync a/ db1: > log"] {
        assert!(!refused(right), "{right}");
    }
}
