//! The program that workers run.

use std::env;
use std::path::{Path, PathBuf};

use haul_base::copy::own_executable::own_executable;
use haul_base::copy::spec::{MasterPlace, WorkerProgram};

use crate::user_dirs;

/// This executable for workers, also if its file has been replaced.
pub fn own_program() -> WorkerProgram {
    // A missing executable is reported when a worker starts.
    let executable = own_executable().unwrap_or_else(|_| Path::new("/proc/self/exe").to_owned());
    WorkerProgram {
        executables_for_others: packaged(&executable).into_iter().chain(user_dirs::cache_dir()).collect(),
        executable,
        worker_arguments: vec!["worker".into()],
        masters: MasterPlace {
            directory: Some(user_dirs::runtime_dir()),
            agent: env::var_os("SSH_AUTH_SOCK").map(PathBuf::from),
            tickets: env::var_os("KRB5CCNAME").map(PathBuf::from),
        },
    }
}

/// The directory of the package `haul-workers`, if this executable is in a `bin` beside it.
fn packaged(executable: &Path) -> Option<PathBuf> {
    let directory = executable.parent().filter(|directory| directory.ends_with("bin"))?;
    Some(directory.parent()?.join("lib/haul"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packaged_executables_belong_to_a_haul_in_bin() {
        let found = |executable: &str| packaged(Path::new(executable)).map(|found| found.display().to_string());
        assert_eq!(found("/usr/bin/haul").as_deref(), Some("/usr/lib/haul"));
        for executable in ["/scratch/anna/haul", "/tmp/haul-0.1.0/haul", "/scratch/sbin/haul", "/haul", "haul"] {
            assert_eq!(found(executable), None, "{executable}");
        }
    }
}
