//! The manual page haul(1), made from the table of options. Its language is that of man(7).

use super::row::{HelpSection, OptionRow};
use super::table::{COPY, SERVE};
use super::version::VERSION;

const ABOUT: &str =
    "haul copies files and directories between machines, or within one. It is started over the user's own
ssh(1), and needs nothing installed: where a host has no haul, it puts itself there. The data does not
go through ssh: it travels over several connections at once, encrypted, and each piece is checked
before it is written. What is there already is not sent again, and a file has its name only when it is
whole and on the disk.";

const OPERANDS: &str =
    "SOURCE and TARGET are paths on this machine or [user@]host:path on another; an IPv6 address stands in
brackets. A path here with a colon in its name is written ./a:b. After --, nothing is an option. A
relative path on another host, and one that begins with ~/, start in the login directory. With several
sources the target is a directory.";

const ARGUMENTS: &str =
    "SIZE is a number of bytes, or one with k, m or g (powers of 1024). TIME is a number of seconds, or one
with s, m, h or d. An argument in brackets may be left out; it is taken only if the option knows it and
enough operands are left. Long names may be shortened as far as they are clear; a beginning that bbcp
knows means bbcp's option.";

const BBCP: &str =
    "Letters of options are bbcp's. Started through a link that is called bbcp, haul takes bbcp's command
line to the letter, with its defaults, and prints its progress and closing lines. It differs on purpose
in these things: -f destroys nothing that could be gone on with; resuming (-a) proves what is there,
block by block; everything is encrypted and compared, and a damaged block is sent again; symbolic links
are kept (under the name bbcp ignored); options that exclude each other are refused. docs/BBCP.md in
the sources has every option.";

const SERVER: &str =
    "haul serve DIR prints a line, haul://HOST:PORT/#SECRET, and serves DIR until it is told to end. Whoever
has the line sends with haul -r run7 LINE and fetches with haul -r LINE:run7 ., without ssh, encrypted
and proven at both ends. With --config FILE, several directories are served under names, with secrets
and keys of their own: haul://HOST/NAME/PATH; haul serve --help shows such a file. Its options:";

const COMMANDS: [(&str, &str); 11] = [
    ("haul serve DIR", "lets others send and fetch, without ssh"),
    (
        "haul sync SOURCE... TARGET",
        "makes TARGET the same as the sources and moves only what differs; SOURCE/ is what is in SOURCE; haul help sync",
    ),
    ("haul verify SOURCE... TARGET", "whether both ends have the same; nothing is written"),
    ("haul status PATH...", "what unfinished copies have left there, and how far it is"),
    ("haul clean PATH...", "removes that, but nothing that a running copy writes"),
    ("haul sweep SOURCE... TARGET", "the same copy with many settings, measured; haul help sweep has its options"),
    ("haul config [HOST]", "which options are in force for a copy from or to HOST, and where each comes from"),
    (
        "haul probe [SOURCE] TARGET",
        "what a copy would reach and what would limit it, measured part by part; --save keeps what it recommends",
    ),
    (
        "haul survey PATH...",
        "what a copy would be made of: bytes, sizes, types, duplicates, how it compresses; --html makes a page of it",
    ),
    ("haul demo", "a copy on this machine through the real path, to see it work"),
    (
        "haul help WHAT",
        "about one option or command; man, markdown, bash, zsh and fish print this page, a table of options, and completions",
    ),
];

const STATUS: [(&str, &str); 5] = [
    ("0", "everything is there and verified"),
    ("1", "some files failed, each named on standard error; or the job could not do its work"),
    ("2", "the command line, or what it asks for, makes no sense"),
    ("3", "the other host could not be reached"),
    ("4", "interrupted, or a connection broke and trying again was in vain: the same command goes on"),
];

const FILES: [(&str, &str); 4] = [
    (
        "~/.config/haul/config.toml (or $XDG_CONFIG_HOME/haul/config.toml)",
        "options by their long names, for all hosts or in sections for some: streams = 8, [host.\"db*\"].
The command line goes before it; --OPTION=default is as if no file had said OPTION. It is read only if nobody
else can write it. haul help config says more",
    ),
    ("/etc/haul/config.toml", "the same of all users; the user's file goes before it"),
    ("/etc/haul/policy, ~/.config/haul/policy", "programs = no: no programs (-N) may be started here for others"),
    (
        "~/.bbcp.cf",
        "under the name bbcp, bbcp's file of options, unless bbcp_CONFIGFN names another one; no other file is read then",
    ),
];

const EXAMPLES: [(&str, &str); 5] = [
    ("haul -r run7 db1:/archive/", "pushes a directory: it becomes /archive/run7"),
    (
        "haul sync --delete run7/ db1:/archive/run7",
        "makes /archive/run7 the same as run7, and removes there what run7 has not",
    ),
    ("haul db1:'~/big.db' .", "pulls a file from the login directory there"),
    ("haul -x 50m -P 2 big.db db1:", "at most 50 MiB a second, with a line every two seconds"),
    ("haul -d /data run7/a run8/b db1:/archive", "makes /archive/run7/a and /archive/run8/b"),
];

/// The page, for `man -l`.
pub fn page() -> String {
    let version = VERSION.trim_end();
    let mut page = format!(".TH HAUL 1 \"\" \"{version}\" \"User Commands\"\n");
    section(&mut page, "NAME", "haul - copies files between hosts: encrypted, verified, over parallel streams");
    page.push_str(".SH SYNOPSIS\n");
    for line in std::iter::once("haul [OPTIONS] SOURCE... TARGET").chain(COMMANDS.iter().map(|(line, _)| *line)) {
        page.push_str(&format!(".br\n.B {}\n", text(line)));
    }
    section(&mut page, "DESCRIPTION", ABOUT);
    paragraph(&mut page, OPERANDS);
    page.push_str(".SH OPTIONS\n");
    paragraph(&mut page, ARGUMENTS);
    for (part, heading) in HelpSection::LISTED {
        page.push_str(&format!(".SS {heading}\n"));
        COPY.iter().filter(|row| row.section == part).for_each(|row| option(&mut page, row));
    }
    section(&mut page, "BBCP", BBCP);
    list(&mut page, "COMMANDS", &COMMANDS);
    section(&mut page, "SERVER", SERVER);
    SERVE.iter().for_each(|row| option(&mut page, row));
    list(&mut page, "EXIT STATUS", &STATUS);
    list(&mut page, "FILES", &FILES);
    list(&mut page, "EXAMPLES", &EXAMPLES);
    section(&mut page, "SEE ALSO", "ssh(1), b3sum(1)");
    page
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

/// Text in which nothing is a request or an escape, and hyphens can be pasted.
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

    #[test]
    fn every_listed_option_is_in_the_manual() {
        let page = page();
        for row in COPY.iter().filter(|row| row.section != HelpSection::Unlisted).chain(SERVE) {
            let line = format!("\n.B {}", text(row.signature().trim_start()));
            assert!(page.contains(&line), "{}", row.id);
            assert!(page.contains(&text(row.help)), "{}", row.id);
        }
    }

    #[test]
    fn nothing_in_a_text_is_a_request() {
        assert_eq!(text(".x\n'y' -z \\ ~^"), "\\&.x\n\\(aqy\\(aq \\-z \\e \\(ti\\(ha");
        let requests = [".TH ", ".SH ", ".SS ", ".TP", ".PP", ".B ", ".br"];
        for line in page().lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(requests.iter().any(|request| line.starts_with(request)), "{line}");
        }
    }
}
