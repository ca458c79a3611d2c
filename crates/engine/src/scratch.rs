//! A temporary directory for a measurement, removed with its contents. Only directories named by this module are
//! removed; their names are unique to it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use haul_proto::path::escape;

use crate::job::error::Error;
use crate::job::location::{Host, Location};
use crate::job::spec::RemoteAccess;
use crate::launch;
use crate::sys::child::spawn_with;

/// Prefix of the names; 16 hexadecimal digits follow.
const PREFIX: &str = "haul-sweep-";
/// Time limit of the removal.
const PATIENCE: Duration = Duration::from_secs(600);
/// Reads the directory from standard input, so that no login shell parses its name.
const REMOVE: &str = "exec sh -c 'IFS= read -r d && exec rm -rf -- \"$d\"'";

/// A scratch directory that could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("{} could not be removed: {cause}", escape(.path.as_os_str().as_bytes()))]
pub struct ScratchRemovalError {
    path: PathBuf,
    #[source]
    cause: RemovalFailureError,
}

/// The cause of a failed removal.
#[derive(Debug, thiserror::Error)]
enum RemovalFailureError {
    /// The local file system refused it.
    #[error("{0}")]
    Local(#[source] io::Error),
    /// A server lets no client remove its directories.
    #[error("who serves a directory lets nobody remove anything")]
    Served,
    /// ssh's arguments are invalid.
    #[error("{0}")]
    SshArguments(#[source] Error),
    /// ssh could not be run.
    #[error("ssh: {0}")]
    SshProcess(#[source] io::Error),
    /// The last error line of ssh or of the remote command.
    #[error("{0}")]
    Reported(String),
    /// The remote command failed without a message.
    #[error("ssh failed")]
    SshStatus,
    /// The remote command exceeded the time limit.
    #[error("it took longer than {} s", PATIENCE.as_secs())]
    Timeout,
}

/// A scratch directory, which may not exist yet.
#[derive(Debug, Clone)]
pub struct ScratchSpace(Location);

impl ScratchSpace {
    /// Returns the directory of this number below `target`. `None` if the path does not fit in one line.
    pub fn below(target: &Location, number: u64) -> Option<Self> {
        let path = target.path.join(format!("{PREFIX}{number:016x}"));
        let is_one_line = !path.as_os_str().as_bytes().contains(&b'\n');
        is_one_line.then(|| Self(Location { host: target.host.clone(), path }))
    }

    /// Returns its location.
    pub fn location(&self) -> &Location {
        &self.0
    }

    /// Removes the directory, if it exists. On another host this takes a separate ssh connection.
    pub fn remove(&self, access: &RemoteAccess) -> Result<(), ScratchRemovalError> {
        let removed = match &self.0.host {
            Host::Local => fs::remove_dir_all(&self.0.path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(RemovalFailureError::Local(error)),
            }),
            Host::Remote { user, name } => self.remove_remote(user.as_deref(), name, access),
            Host::Served { .. } => Err(RemovalFailureError::Served),
        };
        removed.map_err(|cause| ScratchRemovalError { path: self.0.path.clone(), cause })
    }

    fn remove_remote(&self, user: Option<&str>, name: &str, access: &RemoteAccess) -> Result<(), RemovalFailureError> {
        let mut words = launch::ssh_words(user, name, access).map_err(RemovalFailureError::SshArguments)?;
        words.push(REMOVE.into());
        let mut ssh = Command::new("ssh");
        let (mut guard, mut stdin, _) =
            spawn_with(ssh.args(words), std::process::Stdio::null()).map_err(RemovalFailureError::SshProcess)?;
        let line = [self.0.path.as_os_str().as_bytes(), b"\n"].concat();
        // A failed ssh reports its own error.
        let _ = stdin.write_all(&line);
        drop(stdin);
        match guard.wait(PATIENCE).map_err(RemovalFailureError::SshProcess)? {
            Some(status) if status.success() => Ok(()),
            Some(_) => {
                Err(guard.stderr_tail().pop().map_or(RemovalFailureError::SshStatus, RemovalFailureError::Reported))
            }
            None => Err(RemovalFailureError::Timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(path: &std::path::Path) -> Location {
        Location { host: Host::Local, path: path.to_owned() }
    }

    #[test]
    fn it_is_removed_with_all_that_is_in_it_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("theirs"), "theirs").unwrap();
        let scratch = ScratchSpace::below(&here(dir.path()), 7).unwrap();
        scratch.remove(&RemoteAccess::default()).unwrap();
        let place = &scratch.location().path;
        assert!(place.ends_with("haul-sweep-0000000000000007"));
        fs::create_dir_all(place.join("a/b")).unwrap();
        fs::write(place.join("a/file"), "x").unwrap();
        scratch.remove(&RemoteAccess::default()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(place, "no directory").unwrap();
        let error = scratch.remove(&RemoteAccess::default()).unwrap_err().to_string();
        assert!(error.contains("haul-sweep-0000000000000007 could not be removed"), "{error}");
    }

    #[test]
    fn a_path_of_two_lines_has_none() {
        assert!(ScratchSpace::below(&here("a\nb".as_ref()), 1).is_none());
    }
}
