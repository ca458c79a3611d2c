//! Starts the executable in an empty root, and writes the help that it prints: manual pages and completions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_lab::emulating_aarch64;

use super::build::host;
use super::commands::{fail, succeeds};
use crate::install::{PROGRAM, install};
use crate::run::{Output, run};

/// How long `haul --version` may take.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long an emulated copy may take.
const EMULATED_LIMIT: Duration = Duration::from_secs(300);
/// The manual page.
pub(super) const MANUAL: &str = "haul.1";
/// Names printed by the executable itself: a file's name, and its command.
const HELP: [(&str, [&str; 2]); 4] = [
    (MANUAL, ["help", "man"]),
    ("haul.bash", ["completions", "bash"]),
    ("_haul", ["completions", "zsh"]),
    ("haul.fish", ["completions", "fish"]),
];

/// Starts the program in an otherwise empty root without any environment. Gives its version and the place.
pub(super) fn start_alone(built: &Path, target: &str) -> Result<(String, &'static str), String> {
    if target != host()? {
        let printed = succeeds(emulated(built, target)?.arg("--version"), START_LIMIT)?;
        succeeds(emulated(built, target)?.args(["demo", "--size", "10m"]), EMULATED_LIMIT)?;
        return Ok((version(&printed)?, "under qemu, and copies"));
    }
    let cell = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    install(built, &cell.path().join("haul"), PROGRAM).map_err(|error| fail(cell.path(), error))?;
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

/// Writes manual pages and completions to `directory`; their paths.
pub(super) fn write_help(directory: &Path, program: &Path, target: &str) -> Result<Vec<PathBuf>, String> {
    let is_native = target == host()?;
    let write = |name: &str, words: [&str; 2]| {
        let mut command = if is_native { Command::new(program) } else { emulated(program, target)? };
        let path = directory.join(name);
        let text = succeeds(command.args(words), START_LIMIT)?;
        fs::write(&path, &text).map_err(|error| fail(&path, error))?;
        Ok::<_, String>((path, text))
    };
    let mut files = Vec::new();
    for (name, words) in HELP {
        let (path, text) = write(name, words)?;
        files.push(path);
        if name == MANUAL {
            for command in commands_with_pages(&text) {
                files.push(write(&format!("haul-{command}.1"), ["man", command])?.0);
            }
        }
    }
    Ok(files)
}

/// Commands whose pages haul(1) names: `haul\-sync(1)`.
fn commands_with_pages(manual: &str) -> Vec<&str> {
    let lines = manual.lines().map(|line| line.trim_end_matches(','));
    lines.filter_map(|line| line.strip_prefix("haul\\-")?.strip_suffix("(1)")).collect()
}

/// A command that starts an executable of another architecture, and whatever that starts.
pub(super) fn emulated(program: &Path, target: &str) -> Result<Command, String> {
    if !target.starts_with("aarch64-") {
        return Err(format!("{target}: only aarch64 can be emulated"));
    }
    let words = emulating_aarch64().map_err(|error| error.to_string())?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(program);
    Ok(command)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_names_the_other_pages() {
        let manual = ".SH SEE ALSO\nhaul\\-sync(1),\nhaul\\-job(1),\nssh(1), b3sum(1)\n";
        assert_eq!(commands_with_pages(manual), ["sync", "job"]);
    }

    #[test]
    fn reads_the_version() {
        assert_eq!(version("haul 0.1.0\n").as_deref(), Ok("0.1.0"));
        assert_eq!(version("haul 1.2.3-rc1 (x86_64)\n").as_deref(), Ok("1.2.3-rc1"));
        assert!(version("").is_err());
        assert!(version("haul --help\n").is_err());
    }
}
