//! The reference in `docs/OPTIONS.md`, generated from the table of options: `haul help markdown`.

use super::flags::{self, COPY};
use super::letters;
use super::row::{HelpSection, OptionRow};

const INTRODUCTION: &str = "# Options

`haul help markdown` prints this page; `haul help NAME` explains one option on the terminal.

SIZE is a number of bytes, or one with a unit of rsync, in either case: k, m, g, t and p (or KiB, MiB, ...) are powers of 1024, KB, MB, GB, TB and PB powers of 1000. RATE is a SIZE per second (`50m`, `50MB/s`), or a number of bits per second in powers of 1000 (`400Mbit/s`, `1gbps`); the B of bytes is a capital there. TIME is a number of seconds, or numbers with d, h, m (min), s or ms, largest first (`90`, `10m`, `1h30m`, `1.5h`). Sizes and rates are rounded down.

An argument in brackets is optional. `--OPTION=default` restores the default.
";

/// Commands with options of their own.
pub(super) const COMMANDS: [(&str, &[OptionRow]); 18] = [
    ("haul twoway", flags::twoway::ALL),
    ("haul verify", flags::verify::ALL),
    ("haul serve", flags::serve::ALL),
    ("haul probe", flags::probe::ALL),
    ("haul net", flags::net::ALL),
    ("haul sweep", flags::sweep::ALL),
    ("haul read", flags::read::ALL),
    ("haul ls", flags::files::ls::ALL),
    ("haul du", flags::files::du::ALL),
    ("haul mkdir", flags::files::mkdir::ALL),
    ("haul rm", flags::files::rm::ALL),
    ("haul report", flags::report::ALL),
    ("haul survey", flags::survey::ALL),
    ("haul job plan, haul job run", flags::job::ALL),
    ("haul job shard, finish, status, report, cancel", flags::step::ALL),
    ("haul job manifest", flags::manifest::ALL),
    ("haul demo", flags::demo::ALL),
    ("haul status, haul clean", flags::partials::ALL),
];

/// The page.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\nOptions of `haul` and `haul sync`:\n");
    for (section, heading) in HelpSection::LISTED {
        table(&mut page, heading, COPY.iter().filter(|row| row.section == section));
    }
    page.push_str(&format!("\n## Letters\n\n```text\n{}```\n", letters::help()));
    for (command, rows) in COMMANDS {
        table(&mut page, command, rows.iter().filter(|row| row.section != HelpSection::Unlisted));
    }
    page
}

fn table<'a>(page: &mut String, heading: &str, rows: impl Iterator<Item = &'a OptionRow>) {
    page.push_str(&format!("\n## {heading}\n\n| option | |\n|---|---|\n"));
    for row in rows {
        page.push_str(&format!("| `{}` | {} |\n", code(row), text(row.help)));
    }
}

/// An option's usage as a table cell.
fn code(row: &OptionRow) -> String {
    row.full_signature().replace('|', "\\|")
}

/// Escapes text for Markdown.
fn text(content: &str) -> String {
    let mut shown = String::with_capacity(content.len());
    for c in content.chars() {
        if "\\`*_<>[]|~^".contains(c) {
            shown.push('\\');
        }
        shown.push(c);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPTIONS.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "docs/OPTIONS.md is not up to date: haul help markdown > docs/OPTIONS.md");
    }

    #[test]
    fn every_listed_option_has_a_row() {
        let page = page();
        let tables = COMMANDS.iter().flat_map(|(_, rows)| rows.iter());
        for row in COPY.iter().chain(tables).filter(|row| row.section != HelpSection::Unlisted) {
            assert!(page.contains(&format!("\n| `{}` | ", code(row))), "{}", row.id);
        }
    }

    #[test]
    fn rows_have_two_cells() {
        assert_eq!(text("a|b *.o <x> [y]"), "a\\|b \\*.o \\<x\\> \\[y\\]");
        for line in page().lines().filter(|line| line.starts_with("| `")) {
            assert_eq!(line.replace("\\|", "").matches('|').count(), 3, "{line}");
        }
    }
}
