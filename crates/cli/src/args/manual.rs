//! The manual pages, haul(1) and one for each command, generated from the tables of options, in the language of man(7).

use super::commands::{COMMANDS, with_pages};
use super::flags::{self, COPY};
use super::markdown;
use super::row::{HelpSection, OptionRow};
use super::version::VERSION;

/// The date of the pages' last change.
const DATE: &str = "2026-11-28";

const ABOUT: &str =
    "haul copies files and directories between machines, or within one. It starts on remote hosts over the
user's own ssh(1), and needs no installation: it copies itself to hosts that lack it. The data does not
pass through ssh. It travels over several encrypted connections, and each block is verified before it is
written. Existing data is not sent again. A file gets its name only when it is complete and on disk.";

const OPERANDS: &str =
    "SOURCE and TARGET are local paths, or [user@]host:path on a remote host. IPv6 addresses are written in
brackets. Write ./a:b for a local path that contains a colon. Relative remote paths, and ~/path, start in
the login directory. With several sources, TARGET is a directory. -- ends the options.";

const ARGUMENTS: &str =
    "SIZE is a number of bytes, or one with a unit of rsync, in either case: k, m, g, t and p (or KiB, MiB, ...)
are powers of 1024, KB, MB, GB, TB and PB powers of 1000. RATE is a SIZE per second (50m, 50MB/s), or a number
of bits per second in powers of 1000 (400Mbit/s, 1gbps); the B of bytes is a capital there. TIME is a number
of seconds, or numbers with d, h, m (min), s or ms, largest first (90, 10m, 1h30m, 1.5h). Sizes and rates are
rounded down. An argument in brackets is optional. It is taken only if the option accepts the word and enough
arguments remain. Long names may be shortened by up to half while they are unambiguous.
A group of letters, such as -avzP, is rsync's; haul help letters lists all letters.";

const BBCP: &str =
    "As haul bbcp, or through a link called bbcp, haul accepts bbcp's command line exactly, with its defaults, and prints
its progress and closing lines. The differences are deliberate: -f keeps data that a rerun can resume from;
resuming verifies existing data block by block; all data is encrypted and verified, and a damaged block
is sent again; symbolic links are kept (ignored under the name bbcp); contradictory options are refused.
docs/BBCP.md in the sources lists every option.";

const SERVER: &str =
    "haul serve DIR prints an address, haul://HOST:PORT/#SECRET, and serves DIR until it is stopped. Everyone
who has the address sends with haul -r run7 ADDRESS and fetches with haul -r ADDRESS:run7 ., without ssh,
encrypted and verified. With --config FILE, several directories are served by name, with secrets and keys
of their own: haul://HOST/NAME/PATH. haul serve --help shows an example of FILE. Its options:";

const STATUS: [(&str, &str); 7] = [
    ("0", "success: everything is copied and verified"),
    (
        "1",
        "some files failed, each named on standard error; or a command could not do its work: a part of haul probe
failed, or the port of haul serve is in use",
    ),
    (
        "2",
        "usage error: also a target that is no directory or whose directory is missing, a missing file of --infiles, --config or
--expect, and a missing directory of haul serve",
    ),
    ("3", "host unreachable, without an answer in time, or refusing the login"),
    ("4", "interrupted, or the connection was lost for good; rerun to resume"),
    ("5", "files vanished at the source before they were read; all else is copied and verified"),
    ("6", "haul twoway left conflicts; all else is synchronised"),
];

const FILES: [(&str, &str); 5] = [
    (
        "~/.config/haul/config.toml (or $XDG_CONFIG_HOME/haul/config.toml)",
        "options by their long names, for all hosts or in sections for some: streams = 8, [host.\"db*\"].
The command line has precedence; --OPTION=default restores a default. The file is read only if nobody else
can write it. See haul help config",
    ),
    (
        "~/.local/state/haul (or $XDG_STATE_HOME/haul)",
        "detached copies (copies), created trees and locks of running copies (trees, locks), and the archives of
haul twoway (twoway)",
    ),
    ("/etc/haul/config.toml", "the same for all users; the user's file has precedence"),
    ("/etc/haul/policy, ~/.config/haul/policy", "programs = no: no programs (-N) may be started here by remote users"),
    (
        "~/.bbcp.cf",
        "under the name bbcp, bbcp's file of options, unless bbcp_CONFIGFN names another one; no other file is read",
    ),
];

pub(super) const EXAMPLES: [(&str, &str); 6] = [
    ("haul -r run7 db1:/archive/", "push a directory: it becomes /archive/run7"),
    ("haul sync --delete run7/ db1:/archive/run7", "make /archive/run7 match run7, and delete extraneous files there"),
    ("haul twoway ~/photos db1:photos", "bring two directories that both changed to agreement"),
    ("haul db1:'~/big.db' .", "pull a file from the remote login directory"),
    ("haul --bwlimit 50m --progress=2 big.db db1:", "copy at 50 MiB/s or less, with a progress line every two seconds"),
    ("haul --dirbase /data run7/a run8/b db1:/archive", "create /archive/run7/a and /archive/run8/b"),
];

/// The page, for `man -l`.
pub fn page() -> String {
    let mut page = title("HAUL");
    section(&mut page, "NAME", "haul - copy files between hosts: encrypted, verified, over parallel streams");
    page.push_str(".SH SYNOPSIS\n");
    let commands: Vec<_> = COMMANDS.iter().map(|row| (format!("haul {}", row.signature()), row.about)).collect();
    page.push_str(".B haul [OPTIONS] SOURCE... TARGET\n");
    commands.iter().for_each(|(line, _)| page.push_str(&format!(".br\n.B {}\n", text(line))));
    section(&mut page, "DESCRIPTION", ABOUT);
    paragraph(&mut page, OPERANDS);
    section(&mut page, "OPTIONS", ARGUMENTS);
    for (part, heading) in HelpSection::LISTED {
        page.push_str(&format!(".SS {heading}\n"));
        COPY.iter().filter(|row| row.section == part).for_each(|row| option(&mut page, row));
    }
    section(&mut page, "BBCP", BBCP);
    page.push_str(".SH COMMANDS\nhaul help COMMAND has the options of each.\n");
    commands.iter().for_each(|(line, about)| entry(&mut page, line, about));
    section(&mut page, "SERVER", SERVER);
    flags::serve::ALL.iter().for_each(|row| option(&mut page, row));
    list(&mut page, "EXIT STATUS", &STATUS);
    list(&mut page, "FILES", &FILES);
    list(&mut page, "EXAMPLES", &EXAMPLES);
    let pages: Vec<_> = with_pages().map(|row| format!("haul-{}(1)", row.name)).collect();
    section(&mut page, "SEE ALSO", &format!("{},\nssh(1), b3sum(1)", pages.join(",\n")));
    page
}

/// The page of a command, with prose from its help.
pub fn command_page(command: &str, help: &str) -> Option<String> {
    let row = with_pages().find(|row| row.name == command)?;
    // The tables have the options.
    let is_prose = |part: &&str| !part.lines().any(|line| line.starts_with("  ") && line.trim_start().starts_with('-'));
    let mut prose = help.trim_end().split("\n\n").filter(is_prose);
    let mut page = title(&format!("HAUL-{}", command.to_uppercase()));
    section(&mut page, "NAME", &format!("haul-{command} - {}", row.about));
    preformatted(&mut page, ".SH SYNOPSIS", prose.next()?);
    page.push_str(&format!(".SH DESCRIPTION\nIn short: {}.\n", text(row.about)));
    prose.for_each(|part| preformatted(&mut page, ".PP", part));
    page.push_str(".SH OPTIONS\nhaul(1) has those of a copy.\n");
    if command == "sync" {
        COPY.iter().filter(|row| row.section == HelpSection::Syncing).for_each(|row| option(&mut page, row));
    }
    let name = format!("haul {command}");
    let is_own = |heading: &str| heading.split(", ").any(|one| one == name || one.starts_with(&format!("{name} ")));
    for (heading, rows) in markdown::COMMANDS.iter().filter(|(heading, _)| is_own(heading)) {
        page.push_str(&format!(".SS {}\n", text(heading)));
        let listed = rows.iter().filter(|row| row.section != HelpSection::Unlisted);
        listed.for_each(|row| option(&mut page, row));
    }
    section(&mut page, "SEE ALSO", "haul(1)");
    Some(page)
}

fn title(name: &str) -> String {
    format!(".TH {} 1 {DATE} \"{}\" \"User Commands\"\n", text(name), VERSION.trim_end())
}

/// Lines that stay as they are.
fn preformatted(page: &mut String, before: &str, lines: &str) {
    page.push_str(&format!("{before}\n.nf\n{}\n.fi\n", text(lines)));
}

fn option(page: &mut String, row: &OptionRow) {
    entry(page, &row.full_signature(), row.help);
}

fn list(page: &mut String, heading: &str, entries: &[(&str, &str)]) {
    page.push_str(&format!(".SH {heading}\n"));
    entries.iter().for_each(|(what, about)| entry(page, what, about));
}

fn entry(page: &mut String, what: &str, about: &str) {
    page.push_str(&format!(".TP\n.B {}\n{}\n", text(what), text(about)));
}

fn section(page: &mut String, heading: &str, content: &str) {
    page.push_str(&format!(".SH {heading}\n{}\n", text(content)));
}

fn paragraph(page: &mut String, content: &str) {
    page.push_str(&format!(".PP\n{}\n", text(content)));
}

/// Escapes text for man(7), with hyphens that can be pasted.
fn text(content: &str) -> String {
    let special = |c: char| match c {
        '\\' => "\\e".to_owned(),
        '-' => "\\-".to_owned(),
        '~' => "\\(ti".to_owned(),
        '^' => "\\(ha".to_owned(),
        '\'' => "\\(aq".to_owned(),
        c => c.to_string(),
    };
    let line = |line: &str| {
        let shown: String = line.chars().map(special).collect();
        if shown.starts_with('.') { format!("\\&{shown}") } else { shown }
    };
    content.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::help;

    fn of_command(name: &str) -> Option<String> {
        command_page(name, &help::command(name))
    }

    #[test]
    fn every_listed_option_is_in_the_manual() {
        let page = page();
        for row in COPY.iter().filter(|row| row.section != HelpSection::Unlisted).chain(flags::serve::ALL) {
            let line = format!("\n.B {}", text(row.signature().trim_start()));
            assert!(page.contains(&line), "{}", row.id);
            assert!(page.contains(&text(row.help)), "{}", row.id);
        }
    }

    #[test]
    fn every_command_with_options_has_a_page() {
        for (heading, rows) in markdown::COMMANDS {
            let command = heading.split([' ', ',']).nth(1).unwrap();
            let page = of_command(command).unwrap();
            assert!(page.contains(&format!("\n.SH NAME\nhaul\\-{command} \\- ")), "{page}");
            for row in rows.iter().filter(|row| row.section != HelpSection::Unlisted) {
                assert!(page.contains(&text(row.help)), "{command}: {}", row.id);
            }
            assert!(super::page().contains(&format!("\nhaul\\-{command}(1),\n")), "{command}");
        }
        assert!(of_command("sync").unwrap().contains("max\\-delete") && of_command("help").is_none());
    }

    /// mandoc skips a paragraph or break after a heading.
    #[test]
    fn no_macro_is_skipped() {
        for page in with_pages().filter_map(|row| of_command(row.name)).chain([page()]) {
            let lines: Vec<_> = page.lines().collect();
            for pair in lines.windows(2).filter(|pair| pair[0].starts_with(".S")) {
                assert!(![".PP", ".br"].contains(&pair[1]), "{pair:?}");
            }
        }
    }

    #[test]
    fn text_is_never_a_roff_request() {
        assert_eq!(text(".x\n'y' -z \\ ~^"), "\\&.x\n\\(aqy\\(aq \\-z \\e \\(ti\\(ha");
        let requests = [".TH ", ".SH ", ".SS ", ".TP", ".PP", ".B ", ".br", ".nf", ".fi"];
        let pages: String = with_pages().filter_map(|row| of_command(row.name)).collect();
        for line in (page() + &pages).lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(requests.iter().any(|request| line.starts_with(request)), "{line}");
        }
    }
}
