//! A temporary directory for the runs of a sweep, removed with its contents. A marker file with the sweep's token
//! identifies it: another directory with its name stays.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use haul_proto::path::escape;

use crate::fs::{MARKER, MadeDirectory};
use crate::job::error::Error;
use crate::job::location::{Host, Location};
use crate::job::spec::RemoteAccess;
use crate::launch;
use crate::sys::child::spawn_with;

/// Prefix of the names; 16 hexadecimal digits follow.
const PREFIX: &str = "haul-sweep-";
/// Time limit of the creation, and of the removal.
const PATIENCE: Duration = Duration::from_secs(600);
/// The entry of a scratch directory that takes what is copied.
const DATA: &str = "data";
/// Creates and marks a directory. Directory and token come from standard input, so that no login shell parses them. Another
/// directory in its place is not marked, since it is not empty.
const CREATE: &str = r#"exec sh -c 'unset CDPATH; IFS= read -r d && IFS= read -r t && case "$d" in ?*/*) mkdir -p -- "${d%/*}";; esac && umask 077 && mkdir -- "$d" && cd -P -- "$d" && [ -z "$(ls -A)" ] && echo "$t" >@MARKER@'"#;
/// Removes the contents of a directory with this token, and then the directory, if it is there.
const REMOVE: &str = r#"exec sh -c 'unset CDPATH; IFS= read -r d && IFS= read -r t && if [ -d "$d" ] || [ -h "$d" ]; then (cd -P -- "$d" && { [ -f @MARKER@ ] && IFS= read -r m <@MARKER@ && [ "$m" = "$t" ] || { echo "@FOREIGN@" >&2; exit 1; }; } && rm -rf -- @DATA@ @MARKER@) && rmdir -- "$d"; fi'"#;
/// Said of another directory.
const FOREIGN: &str = "not created by this sweep";

/// A scratch directory that could not be created or removed.
#[derive(Debug, thiserror::Error)]
#[error("{} could not be {act}: {cause}", escape(.path.as_os_str().as_bytes()))]
pub struct ScratchError {
    path: PathBuf,
    act: &'static str,
    #[source]
    cause: ScratchFailureError,
}

/// The cause of a [`ScratchError`].
#[derive(Debug, thiserror::Error)]
enum ScratchFailureError {
    /// The local file system refused it.
    #[error("{0}")]
    Local(#[source] io::Error),
    /// A server lets no client remove its directories.
    #[error("a server forbids deleting")]
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
    #[error("timed out after {} s", PATIENCE.as_secs())]
    Timeout,
}

/// A scratch directory, which may not exist yet.
#[derive(Debug, Clone)]
pub struct ScratchSpace {
    directory: Location,
    token: String,
}

impl ScratchSpace {
    /// Returns the directory of the sweep with this number below `target`. `None` if the path does not fit in one line.
    /// The number is secret as the token; the name is a hash of it.
    pub fn below(target: &Location, number: u64) -> Option<Self> {
        let token = format!("{number:016x}");
        let digits = &blake3::hash(token.as_bytes()).to_hex()[..16];
        let path = target.path.join(format!("{PREFIX}{digits}"));
        let is_one_line = !path.as_os_str().as_bytes().contains(&b'\n');
        is_one_line.then(|| Self { directory: Location { host: target.host.clone(), path }, token })
    }

    /// Returns where a run copies to.
    pub fn data(&self) -> Location {
        Location { host: self.directory.host.clone(), path: self.directory.path.join(DATA) }
    }

    /// Creates the directory. On another host this takes a separate ssh connection.
    pub fn create(&self, access: &RemoteAccess) -> Result<(), ScratchError> {
        let created = match &self.directory.host {
            Host::Local => self.create_local().map_err(ScratchFailureError::Local),
            Host::Remote { user, name } => self.run_remote(CREATE, user.as_deref(), name, access),
            Host::Served { .. } => Err(ScratchFailureError::Served),
        };
        created.map_err(|cause| self.error("created", cause))
    }

    /// Removes the directory, if it exists. On another host this takes a separate ssh connection.
    pub fn remove(&self, access: &RemoteAccess) -> Result<(), ScratchError> {
        let removed = match &self.directory.host {
            Host::Local => self.remove_local().map_err(ScratchFailureError::Local),
            Host::Remote { user, name } => self.run_remote(REMOVE, user.as_deref(), name, access),
            Host::Served { .. } => Err(ScratchFailureError::Served),
        };
        removed.map_err(|cause| self.error("removed", cause))
    }

    fn error(&self, act: &'static str, cause: ScratchFailureError) -> ScratchError {
        ScratchError { path: self.directory.path.clone(), act, cause }
    }

    fn create_local(&self) -> io::Result<()> {
        let path = &self.directory.path;
        if let Some(target) = path.parent() {
            std::fs::create_dir_all(target)?;
        }
        MadeDirectory::create_at(path)?.mark(self.token.as_bytes())
    }

    fn remove_local(&self) -> io::Result<()> {
        let path = &self.directory.path;
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let made = MadeDirectory::find_at(path, self.token.as_bytes()).ok_or_else(|| io::Error::other(FOREIGN))?;
        made.remove(|name| name.as_bytes() == DATA.as_bytes())
    }

    /// Runs a script with the directory and the token as its input.
    fn run_remote(
        &self,
        script: &str,
        user: Option<&str>,
        name: &str,
        access: &RemoteAccess,
    ) -> Result<(), ScratchFailureError> {
        let mut words = launch::ssh_words(user, name, access).map_err(ScratchFailureError::SshArguments)?;
        words.push(script.replace("@MARKER@", MARKER).replace("@DATA@", DATA).replace("@FOREIGN@", FOREIGN).into());
        let mut ssh = Command::new("ssh");
        let (mut guard, mut stdin, _) =
            spawn_with(ssh.args(words), std::process::Stdio::null()).map_err(ScratchFailureError::SshProcess)?;
        let lines = [self.directory.path.as_os_str().as_bytes(), b"\n", self.token.as_bytes(), b"\n"].concat();
        // A failed ssh reports its own error.
        let _ = stdin.write_all(&lines);
        drop(stdin);
        match guard.wait(PATIENCE).map_err(ScratchFailureError::SshProcess)? {
            Some(status) if status.success() => Ok(()),
            Some(_) => {
                Err(guard.stderr_tail().pop().map_or(ScratchFailureError::SshStatus, ScratchFailureError::Reported))
            }
            None => Err(ScratchFailureError::Timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn here(path: &Path) -> Location {
        Location { host: Host::Local, path: path.to_owned() }
    }

    #[test]
    fn it_is_removed_with_all_that_is_in_it_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("theirs"), "theirs").unwrap();
        let (scratch, access) = (ScratchSpace::below(&here(dir.path()), 7).unwrap(), RemoteAccess::default());
        scratch.remove(&access).unwrap();
        scratch.create(&access).unwrap();
        assert!(scratch.create(&access).unwrap_err().to_string().contains("could not be created"));
        let data = scratch.data().path;
        fs::create_dir_all(data.join("a/b")).unwrap();
        fs::write(data.join("a/file"), "x").unwrap();
        scratch.remove(&access).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // A missing target is created with its parents, and stays.
        let target = dir.path().join("new/target");
        let in_missing = ScratchSpace::below(&here(&target), 8).unwrap();
        in_missing.create(&access).unwrap();
        in_missing.remove(&access).unwrap();
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        fs::create_dir_all(data.join("tree")).unwrap();
        let error = scratch.remove(&access).unwrap_err().to_string();
        assert!(error.ends_with("could not be removed: not created by this sweep"), "{error}");
        assert!(data.join("tree").exists());
    }

    /// Runs a script as another host does.
    fn run(script: &str, scratch: &ScratchSpace) -> (bool, String) {
        let script = script.replace("@MARKER@", MARKER).replace("@DATA@", DATA).replace("@FOREIGN@", FOREIGN);
        let mut shell = Command::new("sh");
        let (mut guard, mut stdin, _) = spawn_with(shell.args(["-c", &script]), std::process::Stdio::null()).unwrap();
        writeln!(stdin, "{}\n{}", scratch.directory.path.display(), scratch.token).unwrap();
        drop(stdin);
        let status = guard.wait(PATIENCE).unwrap().unwrap();
        (status.success(), guard.stderr_tail().join("\n"))
    }

    #[test]
    fn another_host_removes_only_what_it_made() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("a 'b' $(c)");
        let scratch = ScratchSpace::below(&here(&parent), 7).unwrap();
        assert_eq!(run(REMOVE, &scratch), (true, String::new()));
        assert_eq!(run(CREATE, &scratch), (true, String::new()));
        assert!(!run(CREATE, &scratch).0);
        let data = scratch.data().path;
        fs::create_dir_all(data.join("a/b")).unwrap();
        assert_eq!(run(REMOVE, &scratch), (true, String::new()));
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        // Another tree, also with another token, or behind a link.
        fs::create_dir_all(data.join("tree")).unwrap();
        let path = &scratch.directory.path;
        for marker in [None, Some("other\n")] {
            marker.iter().for_each(|marker| fs::write(path.join(MARKER), marker).unwrap());
            assert_eq!(run(REMOVE, &scratch), (false, FOREIGN.to_owned()));
        }
        let aside = parent.join("aside");
        fs::rename(path, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, path).unwrap();
        assert_eq!(run(REMOVE, &scratch), (false, FOREIGN.to_owned()));
        assert!(aside.join("data/tree").exists());
    }

    #[test]
    fn a_path_of_two_lines_has_none() {
        assert!(ScratchSpace::below(&here("a\nb".as_ref()), 1).is_none());
    }
}
