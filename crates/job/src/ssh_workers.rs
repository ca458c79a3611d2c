//! Workers of a job on a list of hosts, started by ssh: `haul job work` on each.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use haul_base::copy::own_executable::own_executable;
use haul_base::shell_word::quote_bytes;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe_start;
use haul_proto::path::escape;
use haul_show as show;
use haul_show::exit::Exit;

use crate::error::JobError;
use crate::opened::OpenedJob;
use crate::targets::expand;

/// Interval of checks of the hosts' workers.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// The hosts of `n1,n{2..4}`.
pub fn hosts_of(list: &OsStr) -> Result<Vec<OsString>, JobError> {
    let text = list.to_string_lossy();
    let words = text.split(',').filter(|word| !word.is_empty());
    Ok(words.map(|word| expand(OsStr::new(word))).collect::<Result<Vec<_>, _>>()?.concat())
}

/// Starts a worker on each host by ssh, and waits for all.
pub fn on_hosts(job: &OpenedJob, hosts: &[OsString], workers: u32, cancel: &Cancel) -> Result<Exit, JobError> {
    let script = script(job, workers)?;
    let mut running = Vec::new();
    for host in hosts {
        let failed = |error| JobError::failed(format!("ssh: {}", describe_start(&error)), "install ssh");
        running.push((host, started(host, &script).map_err(failed)?));
    }
    let mut worst = Exit::Done;
    while !running.is_empty() {
        thread::sleep(CHECK_EVERY);
        if cancel.is_cancelled() {
            // The end of their standard input stops the workers. Ctrl-C has reached ssh, too, which is in this group so
            // that it can ask for a passphrase.
            running.iter_mut().for_each(|(_, child)| drop(child.stdin.take()));
        }
        running.retain_mut(|(host, child)| {
            let why = match child.try_wait() {
                Ok(None) => return true,
                Ok(Some(status)) if status.success() => return false,
                Ok(Some(status)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            worst = Exit::Failed;
            if !cancel.is_cancelled() {
                show::stderr().notice(&format!("{}: its worker ended: {why}", escape(host.as_encoded_bytes())));
            }
            false
        });
    }
    Ok(if cancel.is_cancelled() { Exit::Interrupted } else { worst })
}

fn started(host: &OsStr, script: &OsStr) -> io::Result<Child> {
    Command::new("ssh").arg("-T").arg("--").arg(host).arg(script).stdin(Stdio::piped()).spawn()
}

/// The script of a host: haul by this executable's path, or on the PATH. It ends with its standard input.
fn script(job: &OpenedJob, workers: u32) -> Result<OsString, JobError> {
    let executable = own_executable().unwrap_or_else(|_| "haul".into());
    let (haul, path) = (quote_bytes(executable.as_os_str()), quote_bytes(job.directory.path().as_os_str()));
    let confirming = job.confirming_words()?.join(" ");
    let mut script = OsString::from("haul=");
    script.push(haul);
    script.push("; [ -x \"$haul\" ] || haul=haul; exec 3<&0; \"$haul\" job work --quiet ");
    script.push(format!("{confirming} --local {workers} "));
    script.push(path);
    script.push(" </dev/null 3<&- & pid=$!; { cat <&3 >/dev/null; kill -TERM $pid; } 2>/dev/null & wait $pid; exit $?");
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_words_and_ranges() {
        assert_eq!(hosts_of(OsStr::new("a,n{1..2},,u@b")).unwrap(), ["a", "n1", "n2", "u@b"]);
        assert!(hosts_of(OsStr::new("n{2..1}")).is_err());
    }
}
