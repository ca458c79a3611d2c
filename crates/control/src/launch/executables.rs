//! The executables that may be deployed: this one, and those for other systems.

use std::path::{Path, PathBuf};

use haul_base::copy::error::Error;
use haul_base::copy::hello::VERSION;
use haul_base::copy::spec::{RemoteAccess, WorkerProgram};
use haul_base::trusted_files::{OthersMay, TrustError, open_own};
use haul_proto::path::escape;

use super::executable::Executable;
use super::script::Deployable;
use super::ssh_master::private_directory;
use super::verified_executable::VerifiedExecutable;

/// Architectures that haul is released for.
const RELEASED: [&str; 2] = ["aarch64", "x86_64"];

/// The released executable for a system, if there is one; fails if there is only one that is not trusted.
type ReleasedResult = Result<Option<Executable>, TrustError>;

/// Executables that may be deployed, at most one for a system: the user's, this one, then released ones.
///
/// A released one is opened and hashed only for a host that needs it.
pub(super) struct DeployableExecutables {
    opened: Vec<Executable>,
    /// Takes the output of `uname -sm`.
    find_released: Box<dyn Fn(&str) -> ReleasedResult + Send>,
    distrust: Option<TrustError>,
}

impl DeployableExecutables {
    /// Opens the user's executable and this one. Released ones lie in `program`'s directories.
    pub(super) fn open(program: &WorkerProgram, access: &RemoteAccess) -> Result<Self, Error> {
        let mut opened: Vec<Executable> = Vec::new();
        opened.extend(access.login.worker_binary.as_deref().map(open_named).transpose()?);
        let known = private_directory(&program.masters).map(|own| VerifiedExecutable::of_this_host(&own));
        let own = open_running(&program.executable, &known.unwrap_or_default())?;
        if opened.iter().all(|named| named.system() != own.system()) {
            opened.push(own);
        }
        let directories = program.executables_for_others.clone();
        Ok(Self::new(opened, move |system| find_released(&directories, system)))
    }

    pub(super) fn new(
        opened: Vec<Executable>,
        find_released: impl Fn(&str) -> ReleasedResult + Send + 'static,
    ) -> Self {
        Self { opened, find_released: Box::new(find_released), distrust: None }
    }

    /// Describes the executables that are open.
    pub(super) fn opened(&self) -> Vec<Deployable<'_>> {
        self.opened.iter().filter_map(Executable::deployable).collect()
    }

    /// Returns the executable for `system`, the output of `uname -sm`. Searches for a released one if none is open.
    pub(super) fn for_system(&mut self, system: &str) -> Option<&mut Executable> {
        if self.opened.iter().all(|executable| executable.system() != Some(system)) {
            match (self.find_released)(system) {
                Ok(found) => self.opened.extend(found),
                Err(distrust) => self.distrust = Some(distrust),
            }
        }
        self.opened.iter_mut().find(|executable| executable.system() == Some(system))
    }

    /// Why the only executable for a host's system was not used.
    pub(super) fn distrust(&self) -> Option<&TrustError> {
        self.distrust.as_ref()
    }
}

/// Returns the name of a release's executable.
fn release_name(architecture: &str) -> String {
    format!("haul-{VERSION}-{architecture}-unknown-linux-gnu")
}

/// Finds a release's executable for `system`; passes over files that cannot run there, or that others could exchange.
fn find_released(directories: &[PathBuf], system: &str) -> ReleasedResult {
    let architecture = system.strip_prefix("Linux ").filter(|architecture| RELEASED.contains(architecture));
    let Some(architecture) = architecture else { return Ok(None) };
    let mut distrust = None;
    for path in directories.iter().map(|directory| directory.join(release_name(architecture))) {
        let file = open_own(&path, OthersMay::Read);
        match file.and_then(|file| Executable::of(file).map_err(|error| TrustError::of(&path, error))) {
            Ok(executable) if executable.system() == Some(system) => return Ok(Some(executable)),
            Err(error) if !error.is_absent() && !error.is_hidden() => distrust = distrust.or(Some(error)),
            Ok(_) | Err(_) => {}
        }
    }
    distrust.map_or(Ok(None), Err)
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

fn open_running(path: &Path, known: &VerifiedExecutable) -> Result<Executable, Error> {
    Executable::open_known(path, known).map_err(|error| {
        let path = escape(path.as_os_str().as_encoded_bytes());
        Error::Failed(format!("cannot read haul's executable {path}: {error}\ntry again: it may have been replaced"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use haul_base::copy::spec::Login;

    use super::*;

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

    const X86: &str = "Linux x86_64";
    const ARM: &str = "Linux aarch64";

    fn open(program: &WorkerProgram, worker_binary: Option<PathBuf>) -> DeployableExecutables {
        let login = Login { worker_binary, ..Login::default() };
        let access = RemoteAccess { login, ..RemoteAccess::default() };
        DeployableExecutables::open(program, &access).unwrap()
    }

    fn size(executables: &mut DeployableExecutables, system: &str) -> Option<u64> {
        executables.for_system(system).and_then(|executable| executable.deployable()).map(|found| found.size)
    }

    #[test]
    fn the_users_executable_precedes_those_in_directories() {
        let own = released(&[("x86_64", 62)], 0);
        let first = released(&[("aarch64", 183)], 1);
        let second = released(&[("aarch64", 183), ("x86_64", 62)], 2);
        let mut program = WorkerProgram {
            executable: own.path().join(release_name("x86_64")),
            worker_arguments: Vec::new(),
            executables_for_others: vec!["/nonexistent".into(), first.path().into(), second.path().into()],
            ..WorkerProgram::default()
        };
        let bytes = 64 + 56;
        let sizes = |program: &WorkerProgram, worker_binary| {
            let mut executables = open(program, worker_binary);
            [X86, ARM].map(|system| size(&mut executables, system))
        };
        assert_eq!(sizes(&program, None), [Some(bytes), Some(bytes + 1)]);
        let named = second.path().join(release_name("aarch64"));
        assert_eq!(sizes(&program, Some(named)), [Some(bytes), Some(bytes + 2)]);
        let replacing_own = second.path().join(release_name("x86_64"));
        assert_eq!(sizes(&program, Some(replacing_own)), [Some(bytes + 2), Some(bytes + 1)]);
        program.executables_for_others.clear();
        assert_eq!(sizes(&program, None), [Some(bytes), None]);
    }

    #[test]
    fn a_released_executable_is_opened_once_a_host_needs_it() {
        let own = released(&[("x86_64", 62)], 0);
        let others = tempfile::tempdir().unwrap();
        let program = WorkerProgram {
            executable: own.path().join(release_name("x86_64")),
            worker_arguments: Vec::new(),
            executables_for_others: vec![others.path().into()],
            ..WorkerProgram::default()
        };
        let mut executables = open(&program, None);
        let later = released(&[("aarch64", 183)], 3);
        fs::rename(later.path().join(release_name("aarch64")), others.path().join(release_name("aarch64"))).unwrap();
        assert_eq!(size(&mut executables, X86), Some(64 + 56));
        assert_eq!(executables.opened().len(), 1);
        for unknown in ["Linux riscv64", "Darwin aarch64", "Linux ../aarch64", ""] {
            assert_eq!(size(&mut executables, unknown), None, "{unknown}");
        }
        assert_eq!(size(&mut executables, ARM), Some(64 + 56 + 3));
        assert_eq!(executables.opened().len(), 2);
    }

    #[test]
    fn a_released_file_that_others_could_exchange_is_named_and_not_used() {
        let (own, planted) = (released(&[("x86_64", 62)], 0), released(&[("aarch64", 183)], 0));
        let mut program = WorkerProgram {
            executable: own.path().join(release_name("x86_64")),
            worker_arguments: Vec::new(),
            executables_for_others: vec![planted.path().into()],
            ..WorkerProgram::default()
        };
        let set_mode = |mode| fs::set_permissions(planted.path(), fs::Permissions::from_mode(mode)).unwrap();
        set_mode(0o757);
        let mut executables = open(&program, None);
        assert_eq!(size(&mut executables, ARM), None);
        let why = executables.distrust().unwrap().to_string();
        assert!(why.contains(&release_name("aarch64")) && why.ends_with("others can write it"), "{why}");
        let right = released(&[("aarch64", 183)], 5);
        program.executables_for_others.push(right.path().into());
        assert_eq!(size(&mut open(&program, None), ARM), Some(64 + 56 + 5));
        set_mode(0o755);
        assert_eq!(size(&mut open(&program, None), ARM), Some(64 + 56));
    }

    #[test]
    fn a_released_file_for_another_machine_is_skipped() {
        let own = released(&[("x86_64", 62)], 0);
        let wrong = released(&[("aarch64", 62)], 0);
        let program = WorkerProgram {
            executable: own.path().join(release_name("x86_64")),
            worker_arguments: Vec::new(),
            executables_for_others: vec![wrong.path().into()],
            ..WorkerProgram::default()
        };
        assert_eq!(size(&mut open(&program, None), ARM), None);
    }

    #[test]
    fn a_named_file_unfit_for_deployment_is_refused() {
        let program = WorkerProgram { executable: std::env::current_exe().unwrap(), ..WorkerProgram::default() };
        for (path, why) in [("/nonexistent", "No such file"), ("/etc/passwd", "not a static executable for Linux")] {
            let login = Login { worker_binary: Some(path.into()), ..Login::default() };
            let access = RemoteAccess { login, ..RemoteAccess::default() };
            let error = DeployableExecutables::open(&program, &access).err().unwrap().to_string();
            assert!(error.starts_with(&format!("--worker-binary {path}: {why}")), "{error}");
        }
    }
}
