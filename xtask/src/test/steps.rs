//! The steps of `cargo xtask test`.
//!
//! One build in the dev profile serves all tests. The other steps compile for themselves.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use haul_lab::rebuild;

use super::nextest::TestRun;
use super::{Step, nextest};
use crate::artifacts::{self, BuiltExecutable};
use crate::report::{Counts, StepResult};
use crate::run::{Output, run};
use crate::tools;
use crate::workspace::{cargo, root};

/// Packages with steps of their own.
const NOT_UNIT: &str = "not (package(haul-e2e) or package(haul-sim) or package(haul-fuzz))";

/// Building is only interrupted where it hangs.
const BUILD_LIMIT: Duration = Duration::from_secs(2 * 3600);
/// The checks of `cargo deny check` that need no network; `deny.toml` has the rules.
const RULES: &[&str] = &["bans", "licenses", "sources"];
/// cargo-deny's message where it cannot fetch RustSec's advisories.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// Results of steps for later ones.
#[derive(Default)]
pub struct Context {
    haul: OnceLock<Result<PathBuf, String>>,
}

impl Context {
    /// The program. Builds it, and every test, if no step has.
    pub fn haul(&self) -> Result<PathBuf, String> {
        self.haul.get_or_init(|| build_all(BUILD_LIMIT)).clone()
    }
}

pub fn tools(_: &Context, _: &Step) -> StepResult {
    let found = tools::provide();
    StepResult { failures: found.missing, skips: found.left_out, ..StepResult::default() }
}

pub fn format(_: &Context, step: &Step) -> StepResult {
    let done = component("fmt", "rustfmt");
    if !done.failures.is_empty() {
        return done;
    }
    StepResult::of(&run(&mut cargo(&["fmt", "--all", "--check"]), step.limit, Output::Shown))
}

pub fn clippy(_: &Context, step: &Step) -> StepResult {
    let done = component("clippy", "clippy");
    if !done.failures.is_empty() {
        return done;
    }
    // haul with all its features, and without any.
    let which = [&["--workspace", "--all-targets"][..], &["--package", "haul", "--no-default-features"]];
    let failures = which.into_iter().filter_map(|which| {
        let arguments = [&["clippy", "--quiet"], which, &["--", "-D", "warnings"]].concat();
        run(&mut beside_tests(&cargo(&arguments)), step.limit, Output::Shown).failure
    });
    StepResult { failures: failures.collect(), ..StepResult::default() }
}

/// The command with lower priority, so that tests with time limits go first.
fn beside_tests(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]);
    rebuild(command, nice)
}

/// Fails, with the remedy, when the toolchain lacks a component.
fn component(subcommand: &str, component: &str) -> StepResult {
    let ended = run(&mut cargo(&[subcommand, "--version"]), Duration::from_secs(60), Output::Kept);
    if ended.succeeded() {
        StepResult::default()
    } else {
        StepResult::failed(format!("{component} is not installed: rustup component add {component}"))
    }
}

/// Checks spelling in all files of the repository; `typos.toml` has the rules.
pub fn spelling(_: &Context, step: &Step) -> StepResult {
    match tools::TYPOS.command() {
        Ok(mut typos) => StepResult::of(&run(typos.current_dir(root()), step.limit, Output::Shown)),
        Err(why) => StepResult { not_run: Some(why), ..StepResult::default() },
    }
}

/// Holds the dependency tree to `deny.toml`.
pub fn supply_chain(_: &Context, step: &Step) -> StepResult {
    let check = |checks: &[&str]| {
        let mut deny = tools::CARGO_DENY.command()?;
        deny.args(["deny", "--locked", "--log-level", "error", "check"]).args(checks).current_dir(root());
        Ok::<_, String>(deny)
    };
    let (mut rules, mut advisories) = match (check(RULES), check(&["advisories"])) {
        (Ok(rules), Ok(advisories)) => (rules, advisories),
        (Err(why), _) | (_, Err(why)) => return StepResult::failed(why),
    };
    let mut done = StepResult::of(&run(&mut rules, step.limit, Output::Shown));
    match advisories.output() {
        Err(error) => done.failures.push(format!("cargo deny could not be started: {error}")),
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains(NO_DATABASE) {
                done.skips.push("advisories: RustSec's database cannot be fetched here".to_owned());
            } else {
                eprintln!("{said}");
                done.failures.push("advisories: cargo deny found some".to_owned());
            }
        }
    }
    done
}

pub fn docs(_: &Context, step: &Step) -> StepResult {
    let mut document = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    document.env("RUSTDOCFLAGS", "-D warnings");
    let mut done = StepResult::of(&run(&mut beside_tests(&document), step.limit, Output::Shown));
    let examples = cargo(&["test", "--quiet", "--workspace", "--doc"]);
    let ended = run(&mut beside_tests(&examples), step.limit, Output::Shown);
    done.counts = Counts::parse(&ended.stdout);
    done.failures.extend(ended.failure.map(|why| format!("documentation's examples: {why}")));
    done
}

pub fn build(context: &Context, _: &Step) -> StepResult {
    context.haul().map_or_else(StepResult::failed, |_| StepResult::default())
}

/// Builds every test and the program, in one call: they share their dependencies' features. Returns the program's path.
pub fn build_all(limit: Duration) -> Result<PathBuf, String> {
    let haul = build_program("haul", &["--workspace", "--tests"], limit)?;
    let tests = nextest::build(limit)?;
    println!("{tests} test executables, and {}", haul.display());
    Ok(haul)
}

/// Builds one program; where it is.
pub fn build_program(name: &str, options: &[&str], limit: Duration) -> Result<PathBuf, String> {
    let programs = executables(&[&["build"], options, &["--bin", name]].concat(), limit)?;
    let program = programs.into_iter().find(|program| !program.test && program.target == name);
    program.map(|program| program.path).ok_or(format!("cargo built no program called {name}"))
}

/// The targets of a cargo call.
fn executables(arguments: &[&str], limit: Duration) -> Result<Vec<BuiltExecutable>, String> {
    let ended = run(cargo(arguments).arg("--message-format=json-render-diagnostics"), limit, Output::Kept);
    match ended.failure {
        Some(why) => Err(format!("cargo {}: {why}", arguments.join(" "))),
        None => Ok(artifacts::parse(&ended.stdout)),
    }
}

pub fn unit(context: &Context, step: &Step) -> StepResult {
    run_tests(context, step, "unit", NOT_UNIT)
}

pub fn simulator(context: &Context, step: &Step) -> StepResult {
    run_tests(context, step, "simulator", "package(haul-sim)")
}

pub fn fuzz(context: &Context, step: &Step) -> StepResult {
    run_tests(context, step, "fuzz", "package(haul-fuzz)")
}

pub fn e2e(context: &Context, step: &Step) -> StepResult {
    run_tests(context, step, "e2e", "package(haul-e2e)")
}

/// Verdicts, and the guide's commands with their times: each test has the machine to itself.
pub fn diagnose(context: &Context, step: &Step) -> StepResult {
    run_tests(context, step, "quiet", "all()")
}

fn run_tests(context: &Context, step: &Step, profile: &str, filter: &str) -> StepResult {
    let haul = match context.haul() {
        Ok(haul) => haul,
        Err(why) => return StepResult::failed(format!("nothing could be run: {why}")),
    };
    let environment = vec![("HAUL_BIN", OsString::from(haul))];
    TestRun { profile, filter, limit: step.limit, prefix: Vec::new(), environment, build: &[] }.run()
}
