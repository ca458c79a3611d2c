//! `cargo xtask dist`: the one static executable that is shipped, built and checked, with what it says of itself: its
//! manual page and completions. `--deb` makes a package of all that.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::install::{PROGRAM, install};
use crate::run::{Output, run};
use crate::workspace::{cargo, root};
use crate::{artifacts, elf, package};

/// How long the build may take: it optimises across all crates.
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// How long `haul --version` may take.
const START_LIMIT: Duration = Duration::from_secs(10);
/// What is made from the program's own table of options: the file's name, and what to ask for.
pub(crate) const SAID: [(&str, &str); 4] =
    [("haul.1", "man"), ("haul.bash", "bash"), ("_haul", "zsh"), ("haul.fish", "fish")];
/// It travels over ssh to hosts that have none, so it has to stay small.
const MAX_BYTES: usize = 10 * 1024 * 1024;

/// Runs the chore.
pub fn main(with_package: bool) -> ExitCode {
    match dist(with_package) {
        Ok(shipped) => {
            println!(
                "{}\n{} bytes\nBLAKE3 {}\nruns {}",
                shipped.path.display(),
                shipped.bytes,
                shipped.digest,
                shipped.runs_in
            );
            shipped.beside.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("cargo xtask dist: {why}");
            ExitCode::FAILURE
        }
    }
}

struct Shipped {
    path: PathBuf,
    bytes: usize,
    digest: String,
    runs_in: &'static str,
    /// What lies beside it.
    beside: Vec<PathBuf>,
}

fn dist(with_package: bool) -> Result<Shipped, String> {
    let built = build()?;
    let content = std::fs::read(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    elf::check_static_pie(&content).map_err(|why| format!("{}: {why}", built.display()))?;
    if content.len() > MAX_BYTES {
        return Err(format!(
            "{} has {} bytes, more than the {MAX_BYTES} that are allowed",
            built.display(),
            content.len()
        ));
    }
    let (version, runs_in) = start_alone(&built)?;
    let directory = root().join("target/dist");
    let path = directory.join(format!("haul-{version}-{}", triple()?));
    install(&built, &path, PROGRAM).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut beside = Vec::new();
    for (name, topic) in SAID {
        let file = directory.join(name);
        std::fs::write(&file, said(&built, topic)?).map_err(|error| format!("{}: {error}", file.display()))?;
        beside.push(file);
    }
    if with_package {
        beside.push(package::build(&directory, &path, &version)?);
    }
    let digest = blake3::hash(&content).to_hex().to_string();
    Ok(Shipped { path, bytes: content.len(), digest, runs_in, beside })
}

/// What the program says of itself when it is asked for help on it.
fn said(program: &Path, topic: &str) -> Result<String, String> {
    let ended = run(Command::new(program).args(["help", topic]), START_LIMIT, Output::Kept);
    match ended.failure {
        None => Ok(ended.stdout),
        Some(why) => Err(format!("haul help {topic}: {why}")),
    }
}

/// Builds the program with the profile that is shipped; its path.
fn build() -> Result<PathBuf, String> {
    let arguments = ["build", "--profile", "dist", "--package", "haul", "--message-format=json-render-diagnostics"];
    let ended = run(&mut cargo(&arguments), BUILD_LIMIT, Output::Kept);
    if let Some(why) = ended.failure {
        return Err(format!("the build failed: {why}"));
    }
    let programs = artifacts::parse(&ended.stdout);
    programs
        .into_iter()
        .find(|program| program.target == "haul")
        .map(|program| program.path)
        .ok_or_else(|| "cargo built no program called haul".to_owned())
}

/// Starts the program where there is nothing but itself, without any environment. Its version, and where it was run.
fn start_alone(built: &Path) -> Result<(String, &'static str), String> {
    let cell = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    install(built, &cell.path().join("haul"), PROGRAM)
        .map_err(|error| format!("{}: {error}", cell.path().display()))?;
    let mut last = String::new();
    for (prefix, runs_in) in cells(cell.path()) {
        let (program, arguments) = prefix.split_first().ok_or("no command")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let ended = run(command.arg("/haul").arg("--version"), START_LIMIT, Output::Kept);
        match ended.failure {
            None => return Ok((version(&ended.stdout)?, runs_in)),
            Some(why) => last = why,
        }
    }
    Err(format!("haul --version does not run in an empty root directory: {last}"))
}

/// Commands that start something in an empty root: the second is for those who are not root.
fn cells(root: &Path) -> [(Vec<String>, &'static str); 2] {
    let root = root.to_string_lossy().into_owned();
    let chroot = vec!["chroot".to_owned(), root.clone()];
    let unshare = ["unshare", "--user", "--map-root-user", "chroot"].map(str::to_owned);
    [
        (chroot, "in an empty root directory"),
        ([&unshare[..], &[root]].concat(), "in an empty root directory of a user namespace"),
    ]
}

/// The version in `haul 0.1.0`.
fn version(printed: &str) -> Result<String, String> {
    let version = printed
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("haul "))
        .and_then(|rest| rest.split_whitespace().next());
    let version = version.filter(|version| version.starts_with(|c: char| c.is_ascii_digit()));
    version
        .map(str::to_owned)
        .ok_or_else(|| format!("haul --version printed '{}', which is no version", printed.trim()))
}

/// This host's target triple, which the build is for.
fn triple() -> Result<String, String> {
    let ended = run(Command::new("rustc").args(["--version", "--verbose"]), START_LIMIT, Output::Kept);
    let triple = ended.stdout.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_owned).ok_or_else(|| "rustc does not say what its host is".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        assert_eq!(version("haul 0.1.0\n").as_deref(), Ok("0.1.0"));
        assert_eq!(version("haul 1.2.3-rc1 (x86_64)\n").as_deref(), Ok("1.2.3-rc1"));
        assert!(version("").is_err());
        assert!(version("haul --help\n").is_err());
    }
}
