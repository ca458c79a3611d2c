//! The table of commands: the source of the parser, the help, the manual and the completions.

use super::flags::{self, COPY};
use super::nearest::nearest;
use super::row::OptionRow;
use super::{shared, sweep};

/// A command: a word in first position.
pub struct CommandRow {
    /// The word.
    pub name: &'static str,
    /// Its arguments, for the help.
    pub arguments: &'static str,
    /// Description in the help.
    pub about: &'static str,
    /// Its options. Those of the steps of `haul job` are in [`super::job`].
    pub options: fn() -> &'static [OptionRow],
    /// Whether the first screen of help leaves it out.
    pub is_rare: bool,
}

/// Every command, in the order of the help. `worker` is one, too, but only haul itself uses it.
pub const COMMANDS: [CommandRow; 28] = [
    command("sync", "SOURCE... TARGET", "make TARGET match SOURCE", || COPY),
    command("twoway", "A B", "bring two directories that both changed to agreement", || &shared::TWOWAY),
    command("verify", "SOURCE... TARGET", "compare without copying", || flags::verify::ALL),
    command("status", "[HOST:]PATH...", "list partial files", || &shared::PARTIALS),
    command("clean", "[HOST:]PATH...", "delete partial files", || &shared::PARTIALS),
    command("ls", "[HOST:]PATH...", "list files", || &shared::LS).in_one_row(),
    command("du", "[HOST:]PATH...", "sum up files and sizes", || &shared::DU).in_one_row(),
    command("mkdir", "[HOST:]PATH...", "create directories", || &shared::MKDIR).in_one_row(),
    command("rm", "[HOST:]PATH...", "delete files and directories", || &shared::RM).in_one_row(),
    command("serve", "DIR", "accept transfers without ssh", || flags::serve::ALL),
    command("survey", "PATH...", "summarise what a copy would move", || flags::survey::ALL),
    command("probe", "[SOURCE] TARGET", "measure disks and network", || &shared::PROBE),
    command("net", "HOST", "measure the network alone", || &shared::NET),
    command("sweep", "SOURCE... TARGET", "benchmark settings", sweep::rows),
    command("report", "FILE...", "chart copies from their --json output", || flags::report::ALL),
    command("job", "STEP ...", "copy with many hosts, in shards", || ONLY_HELP),
    command("copies", "[ACTION NAME]", "list detached copies, or follow one", || flags::copies::ALL),
    command("jobs", "", "list jobs and detached copies", || flags::copies::ALL).rare(),
    command("config", "[HOST]", "show effective options and their origin", || &shared::CONFIG),
    command("read", "PATH", "print a file or a part of it; serve files to a program", || &shared::READ).rare(),
    command("rsync", "...", "rsync's whole command line: haul rsync -avz a/ db1:b", || ONLY_HELP).rare(),
    command("scp", "...", "scp's whole command line: haul scp -P 2222 a db1:", || ONLY_HELP).rare(),
    command("bbcp", "...", "bbcp's whole command line: haul bbcp -s 8 a db1:/b", || ONLY_HELP).rare(),
    command("demo", "", "copy generated data on this machine", || flags::demo::ALL),
    command("help", "[TOPIC]", "explain an option, a command or a topic", || COPY),
    command("man", "[COMMAND]", "print the manual page, or that of a command", || ONLY_HELP).rare(),
    command("completions", "SHELL", "print completions for bash, zsh or fish", || ONLY_HELP).rare(),
    command("version", "", "print the version; with -v, CPU benchmarks as well", || VERSION).rare(),
];

/// Topics of `haul help` that are neither options nor commands.
pub const TOPICS: [&str; 5] = ["all", "exit", "filters", "letters", "size"];
/// Commands without manual pages of their own: they print text, or are other programs'.
const PRINTS: [&str; 7] = ["help", "man", "completions", "version", "rsync", "scp", "bbcp"];
const ONLY_HELP: &[OptionRow] = &[flags::SHOW_HELP.row];
const VERSION: &[OptionRow] = &[flags::VERBOSE.row, flags::SHOW_HELP.row];

/// The options of a command.
pub fn options(name: &str) -> &'static [OptionRow] {
    COMMANDS.iter().find(|row| row.name == name).map_or(ONLY_HELP, |row| (row.options)())
}

/// Commands with a manual page of their own.
pub fn with_pages() -> impl Iterator<Item = &'static CommandRow> {
    COMMANDS.iter().filter(|row| !PRINTS.contains(&row.name))
}

/// The words.
pub fn names() -> Vec<&'static str> {
    COMMANDS.iter().map(|row| row.name).collect()
}

/// The command that `typed` probably misspells. Short commands match only exactly: `new` is not `net`.
pub fn near(typed: &str) -> Option<&'static str> {
    let long: Vec<_> = COMMANDS.iter().map(|row| row.name).filter(|name| name.len() > 3).collect();
    nearest(typed, &long)
}

impl CommandRow {
    const fn rare(mut self) -> Self {
        self.is_rare = true;
        self
    }

    /// It has a row with others.
    const fn in_one_row(self) -> Self {
        self.rare()
    }

    /// Its usage, without `haul`: `sync SOURCE... TARGET`.
    pub fn signature(&self) -> String {
        format!("{} {}", self.name, self.arguments).trim_end().to_owned()
    }
}

const fn command(
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    options: fn() -> &'static [OptionRow],
) -> CommandRow {
    CommandRow { name, arguments, about, options, is_rare: false }
}
