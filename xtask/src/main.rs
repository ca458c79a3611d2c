//! `cargo xtask`: the project's chores under one command.
//!
//! This file only finds the chore that was asked for; each has a module of its own.
#![forbid(unsafe_code)]

mod artifacts;
mod bench;
#[cfg(test)]
mod book;
mod coverage;
mod dist;
#[cfg(test)]
mod documents;
mod elf;
mod fuzz;
mod imports;
mod install;
mod lab;
#[cfg(test)]
mod names;
mod package;
mod report;
mod rows;
mod run;
mod soak;
mod suggest;
mod test;
mod tools;
mod workspace;

use std::process::ExitCode;

/// A chore: its name, its arguments as shown by `help`, what it does, and the function that does it.
struct Chore {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    start: fn(Vec<String>) -> ExitCode,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "test",
        arguments: "[--only STEP]...",
        about: "every check there is; `cargo xtask test --list` names the steps",
        start: test::main,
    },
    Chore {
        name: "dist",
        arguments: "[--deb]",
        about: "builds the one static executable that is shipped, and checks it; manual and completions, too, and a package",
        start: dist::main,
    },
    Chore {
        name: "bench",
        arguments: "[OPTIONS]",
        about: "measures haul beside every peer that is installed; `cargo xtask bench --help`",
        start: bench::main,
    },
    Chore {
        name: "fuzz",
        arguments: "[--seconds N] [TARGET]...",
        about: "runs the fuzz targets for N seconds each (60), with the nightly toolchain; --coverage: what the corpus reaches",
        start: fuzz::main,
    },
    Chore {
        name: "lab",
        arguments: "diagnose|probe [OPTIONS]",
        about: "makes each limit of a copy, and compares haul's verdict with it; or probes, copies, and compares; `cargo xtask lab probe --help`",
        start: lab::main,
    },
    Chore {
        name: "imports",
        arguments: "[--graph[=MODULE]] [--list]",
        about: "modules that import each other in a circle; --graph: what each imports, the ground first; --list: every import",
        start: imports::main,
    },
    Chore {
        name: "soak",
        arguments: "[--minutes N] [--only ROW]...",
        about: "tries what the everyday tests try, for hours; `cargo xtask soak --list` names the rows",
        start: soak::main,
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(asked) = arguments.next() else {
        eprint!("{}", help());
        return ExitCode::from(2);
    };
    if matches!(asked.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    match CHORES.iter().find(|chore| chore.name == asked) {
        Some(chore) => (chore.start)(arguments.collect()),
        None => {
            let names = CHORES.iter().map(|chore| chore.name).chain(["help"]);
            eprintln!("{}", suggest::unknown("chore", &asked, names, "cargo xtask help"));
            ExitCode::from(2)
        }
    }
}

/// What `cargo xtask help` prints.
fn help() -> String {
    let mut text = String::from("usage: cargo xtask CHORE [ARGUMENTS]\n\n");
    for chore in CHORES {
        let call = format!("{} {}", chore.name, chore.arguments);
        text.push_str(&format!("  {call:<32}{}\n", chore.about));
    }
    text.push_str(&format!("  {:<32}this text\n", "help"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_chore() {
        let text = help();
        for chore in CHORES {
            assert!(text.contains(&format!("\n  {} ", chore.name)), "{} is missing in:\n{text}", chore.name);
        }
    }
}
