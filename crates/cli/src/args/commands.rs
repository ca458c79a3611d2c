//! The table of commands: the source of the parser, the help, the manual and the completions.

use super::nearest::nearest;

/// A command: a word in first position.
pub struct CommandRow {
    /// The word.
    pub name: &'static str,
    /// Its arguments, for the help.
    pub arguments: &'static str,
    /// Description in the help.
    pub about: &'static str,
    /// Whether programs use it more than people: the first screen of help leaves it out.
    pub for_programs: bool,
}

/// Every command, in the order of the help. `worker` is one, too, but only haul itself uses it.
pub const COMMANDS: [CommandRow; 18] = [
    command("sync", "SOURCE... TARGET", "make TARGET match SOURCE"),
    command("verify", "SOURCE... TARGET", "compare without copying"),
    command("status", "PATH...", "list partial files"),
    command("clean", "PATH...", "delete partial files"),
    command("serve", "DIR", "accept transfers without ssh"),
    command("survey", "PATH...", "summarise what a copy would move"),
    command("probe", "[SOURCE] TARGET", "measure disks and network"),
    command("net", "HOST", "measure the network alone"),
    command("sweep", "SOURCE... TARGET", "benchmark settings"),
    command("report", "FILE...", "chart copies from their --json output"),
    command("job", "STEP ...", "copy with many hosts, in shards"),
    command("config", "[HOST]", "show effective options and their origin"),
    command("read", "PATH", "print a file or a part of it; serve files to a program").for_programs(),
    command("demo", "", "copy generated data on this machine"),
    command("help", "[TOPIC]", "explain an option, a command or a topic"),
    command("man", "", "print the manual page"),
    command("completions", "SHELL", "print completions for bash, zsh or fish"),
    command("version", "", "print the version; with -v, CPU benchmarks as well"),
];

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
    const fn for_programs(mut self) -> Self {
        self.for_programs = true;
        self
    }

    /// Its usage, without `haul`: `sync SOURCE... TARGET`.
    pub fn signature(&self) -> String {
        format!("{} {}", self.name, self.arguments).trim_end().to_owned()
    }
}

const fn command(name: &'static str, arguments: &'static str, about: &'static str) -> CommandRow {
    CommandRow { name, arguments, about, for_programs: false }
}
