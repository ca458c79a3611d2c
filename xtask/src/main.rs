//! `cargo xtask`: the project's chores under one command.
//!
//! This file only finds the chore; each has a module of its own.
#![forbid(unsafe_code)]

mod api;
mod artifacts;
mod bench;
#[cfg(test)]
mod book;
mod coverage;
mod dist;
#[cfg(test)]
mod documents;
mod fuzz;
mod house;
mod imports;
mod install;
mod lab;
mod messages;
#[cfg(test)]
mod named_tests;
#[cfg(test)]
mod names;
mod notices;
mod report;
mod rows;
mod run;
mod soak;
mod test;
mod tools;
mod venv;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

/// The project's chores
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", args_override_self = true)]
enum Chore {
    /// Every check there is
    Test(test::TestArguments),
    /// Builds the one static executable that is shipped, and checks it; manual, completions and packages, too
    Dist(dist::DistArguments),
    /// Boots a kernel under qemu, and an executable copies there
    Boot(dist::boot::BootArguments),
    /// Unit tests and round trips of haul for aarch64, under qemu
    Emulate(dist::emulate::EmulateArguments),
    /// Measures haul beside every peer that is installed
    #[command(disable_help_flag = true)]
    Bench {
        /// `cargo xtask bench --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
    /// Runs the fuzz targets with the nightly toolchain
    Fuzz(fuzz::FuzzArguments),
    /// Makes each limit of a copy, and compares haul's verdict with it; or probes, copies, and compares
    #[command(disable_help_flag = true)]
    Lab {
        experiment: lab::Experiment,
        /// `cargo xtask lab probe --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
    /// Compares the public interfaces of the libraries with their lists in docs/reference/api
    Api(api::ApiArguments),
    /// Modules that import each other in a circle
    Imports(imports::ImportsArguments),
    /// Figures of the code's shape: lines, long files and functions, untyped errors, circles
    House,
    /// Writes xtask/src/messages.txt: every message of haul
    Messages,
    /// Writes packaging/notices.txt: licences of everything that the executable is linked with
    Notices,
    /// Run the everyday tests many times over, for hours
    Soak(soak::SoakArguments),
}

fn main() -> ExitCode {
    match Chore::parse() {
        Chore::Test(arguments) => test::main(&arguments),
        Chore::Dist(arguments) => dist::main(&arguments),
        Chore::Boot(arguments) => dist::boot::main(&arguments),
        Chore::Emulate(arguments) => dist::emulate::main(&arguments),
        Chore::Bench { options } => bench::main(options),
        Chore::Fuzz(arguments) => fuzz::main(arguments),
        Chore::Lab { experiment, options } => lab::main(experiment, options),
        Chore::Api(arguments) => api::main(&arguments),
        Chore::Imports(arguments) => imports::main(&arguments),
        Chore::House => house::main(),
        Chore::Messages => messages::main(),
        Chore::Notices => notices::main(),
        Chore::Soak(arguments) => soak::main(&arguments),
    }
}

/// Long options of a chore, with their dashes.
#[cfg(test)]
fn chore_options(name: &str) -> Vec<String> {
    let chores = <Chore as clap::CommandFactory>::command();
    let chore = chores.find_subcommand(name).expect("a chore");
    chore.get_arguments().filter_map(|argument| argument.get_long()).map(|long| format!("--{long}")).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn chores_and_their_options_are_consistent() {
        Chore::command().debug_assert();
        let parsed = |line: &str| Chore::try_parse_from(line.split_whitespace());
        let options = ["--help".to_owned(), "--runs".to_owned()].map(OsString::from);
        assert!(matches!(parsed("x bench --help --runs"), Ok(Chore::Bench { options: given }) if given == options));
        assert!(
            matches!(parsed("x lab probe --help --runs"), Ok(Chore::Lab { options: given, .. }) if given == options)
        );
        assert!(
            parsed("x soak --minutes 5 --only kills --only=seeds").is_ok() && parsed("x fuzz control frame").is_ok()
        );
        for (line, hint) in [
            ("x tset", "'test'"),
            ("x test --only e2", "'e2e'"),
            ("x test --onyl e2e", "'--only'"),
            ("x soak --only kill", "'kills'"),
            ("x soak --minutes 0", "--minutes"),
            ("x fuzz --secondz 5", "'--seconds'"),
        ] {
            assert!(parsed(line).is_err_and(|error| error.to_string().contains(hint)), "{line}");
        }
    }
}
