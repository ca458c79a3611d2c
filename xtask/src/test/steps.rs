//! The steps of `cargo xtask test`.
//!
//! One build in the dev profile (dependencies optimised, haul itself slightly) serves all steps. They then run the test
//! executables directly, each with its own time and time limit.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Step;
use super::harness::Harness;
use crate::artifacts::{self, BuiltExecutable};
use crate::report::{Counts, StepResult};
use crate::run::{Output, run};
use crate::tools;
use crate::workspace::{cargo, root};

/// How many end-to-end tests run at once: they start sshds and wait a lot, so more than cores is no gain on small
/// machines.
const E2E_THREADS: &str = "--test-threads=2";
/// How many executables run at once: many of their tests wait for something, and not for a processor.
const AT_ONCE: usize = 4;
/// The slowest executables, in starting order: the last one would otherwise run alone. Some of them mostly wait, others
/// compute.
const LONG: &[&str] = &[
    "job_slurm",
    "sync_pairs",
    "retries",
    "glitches",
    "hostile_target",
    "parts",
    "probe",
    "damage",
    "faults",
    "status",
    "ways",
    "compression",
    "bootstrap",
];

/// Building is only interrupted where it hangs.
const BUILD_LIMIT: Duration = Duration::from_secs(2 * 3600);
/// The checks of `cargo deny check` that need no network; `deny.toml` has the rules.
const RULES: &[&str] = &["bans", "licenses", "sources"];
/// cargo-deny's message where it cannot fetch RustSec's advisories.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// Results of steps for later ones.
#[derive(Default)]
pub struct Context {
    built: Option<Result<Built, String>>,
}

/// Results of the build step.
#[derive(Debug, Clone)]
pub struct Built {
    /// Test executables.
    pub tests: Vec<BuiltExecutable>,
    /// The program.
    pub haul: PathBuf,
}

impl Context {
    /// The build's results; builds first if no step has.
    fn built(&mut self) -> Result<Built, String> {
        self.built.get_or_insert_with(|| build_all(BUILD_LIMIT)).clone()
    }
}

pub fn tools(_: &mut Context, _: &Step) -> StepResult {
    let found = tools::provide();
    StepResult { failures: found.missing, skips: found.left_out, ..StepResult::default() }
}

pub fn format(_: &mut Context, step: &Step) -> StepResult {
    let done = component("fmt", "rustfmt");
    if !done.failures.is_empty() {
        return done;
    }
    StepResult::of(&run(&mut cargo(&["fmt", "--all", "--check"]), step.limit, Output::Shown))
}

pub fn clippy(_: &mut Context, step: &Step) -> StepResult {
    let done = component("clippy", "clippy");
    if !done.failures.is_empty() {
        return done;
    }
    // haul with all its features, and without any.
    let which = [&["--workspace", "--all-targets"][..], &["--package", "haul", "--no-default-features"]];
    let failures = which.into_iter().filter_map(|which| {
        let arguments = [&["clippy", "--quiet"], which, &["--", "-D", "warnings"]].concat();
        run(&mut cargo(&arguments), step.limit, Output::Shown).failure
    });
    StepResult { failures: failures.collect(), ..StepResult::default() }
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
pub fn spelling(_: &mut Context, step: &Step) -> StepResult {
    match tools::TYPOS.provide() {
        Ok(()) => StepResult::of(&run(Command::new("typos").current_dir(root()), step.limit, Output::Shown)),
        Err(why) => StepResult { not_run: Some(why), ..StepResult::default() },
    }
}

/// Holds the dependency tree to `deny.toml`.
pub fn supply_chain(_: &mut Context, step: &Step) -> StepResult {
    if let Err(why) = tools::CARGO_DENY.provide() {
        return StepResult::failed(why);
    }
    let rules = [&["deny", "--log-level", "error", "check"], RULES].concat();
    let mut done = StepResult::of(&run(&mut cargo(&rules), step.limit, Output::Shown));
    let mut advisories = cargo(&["deny", "--log-level", "error", "check", "advisories"]);
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

pub fn docs(_: &mut Context, step: &Step) -> StepResult {
    let mut command = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    StepResult::of(&run(command.env("RUSTDOCFLAGS", "-D warnings"), step.limit, Output::Shown))
}

pub fn build(context: &mut Context, _: &Step) -> StepResult {
    match context.built() {
        Ok(built) => {
            println!("{} test executables, and {}", built.tests.len(), built.haul.display());
            StepResult::default()
        }
        Err(why) => StepResult::failed(why),
    }
}

/// Builds every test and the program; the two calls share all but the last links.
pub fn build_all(limit: Duration) -> Result<Built, String> {
    let mut tests = executables(&["test", "--workspace", "--no-run"], limit)?;
    tests.retain(|executable| executable.test);
    Ok(Built { tests, haul: build_program("haul", &["--workspace"], limit)? })
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

pub fn unit(context: &mut Context, step: &Step) -> StepResult {
    let mut done = run_tests(context, step, AT_ONCE, &[], |test| !matches!(package_of(test), "e2e" | "sim" | "fuzz"));
    if context.built().is_err() {
        return done;
    }
    let ended = run(&mut cargo(&["test", "--quiet", "--workspace", "--doc"]), step.limit, Output::Shown);
    done.counts.add(Counts::parse(&ended.stdout));
    done.failures.extend(ended.failure.map(|why| format!("documentation's examples: {why}")));
    done
}

pub fn simulator(context: &mut Context, step: &Step) -> StepResult {
    run_tests(context, step, 1, &[], |test| package_of(test) == "sim")
}

pub fn fuzz(context: &mut Context, step: &Step) -> StepResult {
    run_tests(context, step, 1, &[], |test| package_of(test) == "fuzz")
}

pub fn e2e(context: &mut Context, step: &Step) -> StepResult {
    run_tests(context, step, AT_ONCE, &[E2E_THREADS], |test| package_of(test) == "e2e" && !is_alone(test))
}

/// Verdicts, and the guide's commands with their times: each test has the machine to itself.
pub fn diagnose(context: &mut Context, step: &Step) -> StepResult {
    run_tests(context, step, 1, &["--test-threads=1"], |test| package_of(test) == "e2e" && is_alone(test))
}

fn is_alone(test: &BuiltExecutable) -> bool {
    matches!(test.target.as_str(), "diagnose" | "guide")
}

/// Runs the test executables that `wanted` chooses.
fn run_tests(
    context: &mut Context,
    step: &Step,
    at_once: usize,
    arguments: &[&'static str],
    wanted: fn(&BuiltExecutable) -> bool,
) -> StepResult {
    let built = match context.built() {
        Ok(built) => built,
        Err(why) => return StepResult::failed(format!("nothing could be run: {why}")),
    };
    let mut chosen: Vec<_> = built.tests.iter().filter(|test| wanted(test)).collect();
    chosen.sort_by_key(|test| LONG.iter().position(|name| *name == test.target).unwrap_or(LONG.len()));
    let harness = Harness {
        root: root(),
        prefix: Vec::new(),
        limit: step.limit,
        environment: vec![("HAUL_BIN", built.haul.to_string_lossy().into_owned())],
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        at_once,
    };
    harness.run(&chosen)
}

/// A package's directory under the root: `sim`, `crates/proto`.
pub fn package_of(executable: &BuiltExecutable) -> &str {
    let package = executable.package_dir.strip_prefix(root()).unwrap_or(&executable.package_dir);
    package.to_str().unwrap_or_default()
}
