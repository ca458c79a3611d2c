//! The command of `--notify`, which runs at the end of a job or a copy.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use haul_base::sys::describe::describe;
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::text::harmless;

/// Runs `command` by the shell, with the exit status and `environment`. Its failure is reported, and changes nothing.
pub fn notify(command: &str, exit: Exit, environment: &[(&str, &OsStr)]) {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    shell.env("HAUL_STATUS", exit.number().to_string()).envs(environment.iter().copied());
    let failed = match shell.status() {
        Ok(status) if status.success() => return,
        Ok(status) => status.to_string(),
        Err(error) => describe(&error),
    };
    show::stderr().notice(&format!("--notify {}: {failed}", harmless(command)));
}
