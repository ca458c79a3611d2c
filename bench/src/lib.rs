//! Runs haul beside every peer on this machine, over the same data, and reports which was faster.
//!
//! Method:
//!
//! - Rounds are interleaved: each round runs every tool once, and each round starts with another one. A machine that
//!   slows down affects all tools alike.
//! - Before the first round, each tool copies everything once, unmeasured. Between runs the target is removed and the
//!   file systems are synced. After each run, outside the timed part, the copy is compared with the source byte by byte.
//! - Wall time is from the start of the client to its end; for a separate receiver (`nc`), to the end of the later of
//!   both.
//! - CPU is user plus system time of every process of an end, by control group version 2 if possible, else from `/proc`
//!   in ticks of 10 ms.
//! - Peak memory is the total resident memory of all processes of an end, sampled five times a second (a higher rate
//!   slows down the measured tool). ssh's and sshd's own processes count for tools that use them.
//! - Disk workloads start without the source's pages in the page cache, and end after a sync of the target's file system:
//!   the same for every tool.
//! - Every run records the CPU time of the rest of the machine. The report warns if it was considerable.
//!
//! `--help` describes the command line.

mod aims;
mod args;
mod bare_loop;
mod compression;
mod cpuid;
mod curves;
mod daemon;
mod helper;
mod hosts;
mod jobs;
mod kind;
mod machine;
mod measure;
mod old_cpu;
mod pacing;
mod primitives;
mod programs;
mod recipes;
mod report;
mod rounds;
mod settings;
mod site;
mod statistics;
mod strangers;
mod sync;
mod text;
mod tools;
mod tracer;
mod wan;
mod windows;
mod workload;

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use rounds::RoundsReport;
use settings::BenchSettings;

/// Runs the benchmark that these arguments (without the program's name) describe.
///
/// Prints the tables on standard output and progress on standard error. Succeeds
/// when every run of haul that was to be made was made and its copies agreed.
pub fn main<Word: Into<OsString>>(args: impl IntoIterator<Item = Word>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    if wan::is_meant(&args) {
        return wan::main(&args);
    }
    if is_helper(&args) {
        return run_helper(&args);
    }
    conclude(run(&args::parse(args).unwrap_or_else(|error| error.exit())))
}

fn conclude(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether haul met all its targets.
fn run(settings: &BenchSettings) -> Result<bool> {
    if settings.install {
        install()?;
    }
    if settings.compression {
        compression::check()?;
        return compression::run(settings);
    }
    if settings.pacing {
        return pacing::run(settings);
    }
    if settings.curves {
        return curves::run(settings);
    }
    if settings.jobs {
        return jobs::run(settings);
    }
    if settings.sync {
        sync::check()?;
        return sync::run(settings);
    }
    if settings.primitives {
        return primitives::run();
    }
    if settings.strangers {
        return strangers::run(settings);
    }
    let passes = settings.congestions().into_iter();
    let outcomes: Vec<RoundsReport> = passes.map(|name| rounds::run(settings, name)).collect::<Result<_>>()?;
    let text: Vec<String> = outcomes.iter().map(report::markdown).collect();
    let text = text.join("\n");
    println!("{text}");
    if let Some(path) = &settings.markdown {
        std::fs::write(path, &text).with_context(|| format!("writing {path:?}"))?;
    }
    if let Some(path) = &settings.json {
        std::fs::write(path, report::json(&outcomes)).with_context(|| format!("writing {path:?}"))?;
    }
    Ok(outcomes.iter().all(RoundsReport::haul_succeeded))
}

/// Whether these arguments name the haul to measure, or none is needed. Ends the program on invalid arguments and after
/// `--help`.
pub fn brings_haul(args: &[OsString]) -> bool {
    let haul = match args {
        args if is_helper(args) => return true,
        args if wan::is_meant(args) => wan::parse(args).haul,
        args => args::parse(args).unwrap_or_else(|error| error.exit()).haul,
    };
    haul.is_some()
}

fn is_helper(args: &[OsString]) -> bool {
    args.first().is_some_and(|first| helper::is_meant(first))
}

/// Runs the helper that these arguments mean.
fn run_helper(args: &[OsString]) -> ExitCode {
    let (verb, rest) = args.split_first().map_or((None, args), |(verb, rest)| (Some(verb), rest));
    let result = match verb.and_then(|verb| verb.to_str()) {
        Some("bare-loop") => bare_loop::main(rest),
        Some("primitives") => primitives::main(rest),
        _ => old_cpu::main(rest),
    };
    result.unwrap_or_else(|error| {
        eprintln!("haul-bench: {error:#}");
        ExitCode::FAILURE
    })
}

/// Installs the peers available as Debian packages.
fn install() -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["install", "--yes", "--no-install-recommends"]).args(tools::DEBIAN_PACKAGES);
    eprintln!("bench: {command:?}");
    let status = command.status().context("could not start apt-get (--install works on Debian and its kin)")?;
    ensure!(status.success(), "apt-get failed ({status}); as root, and after apt-get update?");
    Ok(())
}
