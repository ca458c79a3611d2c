//! `docs/BBCP.md` has every option of bbcp. (`xtask/src/named_tests.rs` looks for the tests that it names.)

use std::path::{Path, PathBuf};

use super::{COPY, OptionRow};
use crate::args::row::Bbcp;

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
        let letters = row.letter.into_iter().chain(row.other_letter).map(|letter| format!("-{letter}"));
        let named = |typed: &str, word: &str| quoted(typed).any(|quoted| quoted.split([' ', ',']).next() == Some(word));
        for letter in letters {
            let found: Vec<_> = rows.iter().filter(|[typed, ..]| named(typed, &letter)).collect();
            let [[typed, does, tests]] = found[..] else { panic!("{letter} has {} rows", found.len()) };
            if let Some(Bbcp::Long(name, _)) = row.bbcp {
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
