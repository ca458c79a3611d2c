//! The executables that may be deployed: this one, and those for other systems.

use std::path::{Path, PathBuf};

use haul_proto::path::escape;

use crate::job::error::Error;
use crate::job::hello::VERSION;
use crate::job::spec::{RemoteAccess, WorkerProgram};

use super::executable::Executable;

/// Architectures that haul is released for.
const RELEASED: [&str; 2] = ["aarch64", "x86_64"];

/// Opens what may be deployed, at most one executable for a system: the user's, this one, then released ones from
/// `program`'s directories.
pub(super) fn open(program: &WorkerProgram, access: &RemoteAccess) -> Result<Vec<Executable>, Error> {
    let mut executables: Vec<Executable> = Vec::new();
    executables.extend(access.login.worker_binary.as_deref().map(open_named).transpose()?);
    let own = open_own(&program.executable)?;
    if executables.iter().all(|named| named.system() != own.system()) {
        executables.push(own);
    }
    for architecture in RELEASED {
        let system = format!("Linux {architecture}");
        if executables.iter().all(|executable| executable.system() != Some(&system)) {
            executables.extend(find(&program.executables_for_others, architecture, &system));
        }
    }
    Ok(executables)
}

/// Returns the name of a release's executable.
fn release_name(architecture: &str) -> String {
    format!("haul-{VERSION}-{architecture}-unknown-linux-gnu")
}

/// Finds a release's executable for `system`; passes over files that cannot run there.
fn find(directories: &[PathBuf], architecture: &str, system: &str) -> Option<Executable> {
    let paths = directories.iter().map(|directory| directory.join(release_name(architecture)));
    let mut opened = paths.filter_map(|path| Executable::open(&path).ok());
    opened.find(|executable| executable.system() == Some(system))
}

fn open_named(path: &Path) -> Result<Executable, Error> {
    let shown = escape(path.as_os_str().as_encoded_bytes());
    let executable = Executable::open(path).map_err(|error| {
        Error::Usage(format!("--worker-binary {shown}: {error}\ngive the path of a haul executable"))
    })?;
    if executable.system().is_none() {
        return Err(Error::Usage(format!(
            "--worker-binary {shown}: not a static executable for Linux\nbuild it with `cargo xtask dist --target TRIPLE`"
        )));
    }
    Ok(executable)
}

fn open_own(path: &Path) -> Result<Executable, Error> {
    Executable::open(path).map_err(|error| {
        let path = escape(path.as_os_str().as_encoded_bytes());
        Error::Failed(format!("cannot read haul's executable {path}: {error}\ntry again: it may have been replaced"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::job::spec::Login;

    /// Returns a directory with the start of a static executable for each architecture, under its release's name.
    fn released(architectures: &[(&str, u16)], padding: usize) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (architecture, machine) in architectures {
            let mut content = super::super::elf::tests::elf(3, *machine, &[1]);
            content.resize(content.len() + padding, 0);
            fs::write(directory.path().join(release_name(architecture)), content).unwrap();
        }
        directory
    }

    fn opened(program: &WorkerProgram, worker_binary: Option<PathBuf>) -> Vec<(String, u64)> {
        let access = RemoteAccess { login: Login { worker_binary, ..Login::default() }, ..RemoteAccess::default() };
        let executables = open(program, &access).unwrap();
        executables.iter().filter_map(Executable::deployable).map(|d| (d.system.to_owned(), d.size)).collect()
    }

    #[test]
    fn the_users_executable_goes_before_those_in_directories_in_their_order() {
        let own = released(&[("x86_64", 62)], 0);
        let first = released(&[("aarch64", 183)], 1);
        let second = released(&[("aarch64", 183), ("x86_64", 62)], 2);
        let mut program = WorkerProgram {
            executable: own.path().join(release_name("x86_64")),
            worker_arguments: Vec::new(),
            executables_for_others: vec!["/nonexistent".into(), first.path().into(), second.path().into()],
        };
        let bytes = 64 + 56;
        let (x86, arm) = ("Linux x86_64".to_owned(), "Linux aarch64".to_owned());
        assert_eq!(opened(&program, None), [(x86.clone(), bytes), (arm.clone(), bytes + 1)]);
        let named = second.path().join(release_name("aarch64"));
        assert_eq!(opened(&program, Some(named)), [(arm, bytes + 2), (x86.clone(), bytes)]);
        let replacing_own = second.path().join(release_name("x86_64"));
        assert_eq!(opened(&program, Some(replacing_own))[0], (x86.clone(), bytes + 2));
        program.executables_for_others.clear();
        assert_eq!(opened(&program, None), [(x86, bytes)]);
    }

    #[test]
    fn a_released_file_for_another_machine_is_passed_over() {
        let own = released(&[("x86_64", 62)], 0);
        let wrong = released(&[("aarch64", 62)], 0);
        let program = WorkerProgram {
            executable: own.path().join(release_name("x86_64")),
            worker_arguments: Vec::new(),
            executables_for_others: vec![wrong.path().into()],
        };
        assert_eq!(opened(&program, None).len(), 1);
    }

    #[test]
    fn a_named_file_that_cannot_be_deployed_is_refused() {
        let program = WorkerProgram { executable: std::env::current_exe().unwrap(), ..WorkerProgram::default() };
        for (path, why) in [("/nonexistent", "No such file"), ("/etc/passwd", "not a static executable for Linux")] {
            let login = Login { worker_binary: Some(path.into()), ..Login::default() };
            let access = RemoteAccess { login, ..RemoteAccess::default() };
            let error = open(&program, &access).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--worker-binary {path}: {why}")), "{error}");
        }
    }
}
