//! The program that workers run.

use std::path::Path;

use haul_base::job::own_executable::own_executable;
use haul_base::job::spec::WorkerProgram;

use crate::user_dirs;

/// This executable for workers, also if its file has been replaced.
pub fn own_program() -> WorkerProgram {
    // A missing executable is reported when a worker starts.
    let executable = own_executable().unwrap_or_else(|_| Path::new("/proc/self/exe").to_owned());
    let packaged = executable.parent().and_then(Path::parent).map(|prefix| prefix.join("lib/haul"));
    WorkerProgram {
        executables_for_others: packaged.into_iter().chain(user_dirs::cache_dir()).collect(),
        executable,
        worker_arguments: vec!["worker".into()],
    }
}
