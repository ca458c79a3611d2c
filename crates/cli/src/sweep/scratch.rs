//! A temporary directory for the runs of a sweep, removed with its contents. A marker file with the sweep's token
//! identifies it: another directory with its name stays.

use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::RemoteAccess;
use haul_base::sys::child::spawn_with;
use haul_control::launch;
use haul_engine::fs::{MARKER, MadeDirectory};
use haul_proto::path::escape;

/// Prefix of the names; 16 hexadecimal digits follow.
const PREFIX: &str = "haul-sweep-";
/// Time limit of the creation, and of the removal.
const PATIENCE: Duration = Duration::from_secs(600);
/// The entry of a scratch directory for copied data.
const DATA: &str = "data";
/// Creates and marks a directory. Directory and token come from standard input, so that no login shell parses them. Another
/// directory in its place is not marked, since it is not empty.
const CREATE: &str = r#"exec sh -c 'unset CDPATH; IFS= read -r d && IFS= read -r t && case "$d" in ?*/*) mkdir -p -- "${d%/*}";; esac && umask 077 && mkdir -- "$d" && cd -P -- "$d" && [ -z "$(ls -A)" ] && echo "$t" >@MARKER@'"#;
/// Removes the contents of a directory with this token, and then the directory, if it is there.
const REMOVE: &str = r#"exec sh -c 'unset CDPATH; IFS= read -r d && IFS= read -r t && if [ -d "$d" ] || [ -h "$d" ]; then (cd -P -- "$d" && { [ -f @MARKER@ ] && IFS= read -r m <@MARKER@ && [ "$m" = "$t" ] || { echo "@FOREIGN@" >&2; exit 1; }; } && rm -rf -- @DATA@ @MARKER@) && rmdir -- "$d"; fi'"#;
/// The error for another directory.
const FOREIGN: &str = "not created by this sweep";
/// The error for a server, which forbids removal of its directories.
const SERVED: &str = "a server forbids deleting";

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

    /// The target of a run.
    pub fn data(&self) -> Location {
        Location { host: self.directory.host.clone(), path: self.directory.path.join(DATA) }
    }

    /// Creates the directory. On another host this takes a separate ssh connection.
    pub fn create(&self, access: &RemoteAccess) -> anyhow::Result<()> {
        let created = match &self.directory.host {
            Host::Local => self.create_local(),
            Host::Remote { user, name } => self.run_remote(CREATE, user.as_deref(), name, access),
            Host::Served { .. } => Err(anyhow!(SERVED)),
        };
        created.map_err(|cause| anyhow!("{} could not be created: {cause:#}", self.path()))
    }

    /// Removes the directory, if it exists. On another host this takes a separate ssh connection.
    pub fn remove(&self, access: &RemoteAccess) -> anyhow::Result<()> {
        let removed = match &self.directory.host {
            Host::Local => self.remove_local(),
            Host::Remote { user, name } => self.run_remote(REMOVE, user.as_deref(), name, access),
            Host::Served { .. } => Err(anyhow!(SERVED)),
        };
        removed.map_err(|cause| anyhow!("{} could not be removed: {cause:#}", self.path()))
    }

    fn path(&self) -> String {
        escape(self.directory.path.as_os_str().as_bytes())
    }

    fn create_local(&self) -> anyhow::Result<()> {
        let path = &self.directory.path;
        if let Some(target) = path.parent() {
            std::fs::create_dir_all(target)?;
        }
        Ok(MadeDirectory::create_at(path)?.mark(self.token.as_bytes())?)
    }

    fn remove_local(&self) -> anyhow::Result<()> {
        let path = &self.directory.path;
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let made = MadeDirectory::find_at(path, self.token.as_bytes()).ok_or_else(|| anyhow!(FOREIGN))?;
        Ok(made.remove(|name| name.as_bytes() == DATA.as_bytes())?)
    }

    /// Runs a script with the directory and the token as its input.
    fn run_remote(&self, script: &str, user: Option<&str>, name: &str, access: &RemoteAccess) -> anyhow::Result<()> {
        let mut words = launch::ssh_words(user, name, access)?;
        words.push(script.replace("@MARKER@", MARKER).replace("@DATA@", DATA).replace("@FOREIGN@", FOREIGN).into());
        let mut ssh = Command::new("ssh");
        let (mut guard, mut stdin, _) = spawn_with(ssh.args(words), Stdio::null()).context("ssh")?;
        let lines = [self.directory.path.as_os_str().as_bytes(), b"\n", self.token.as_bytes(), b"\n"].concat();
        // A failed ssh reports its own error.
        let _ = stdin.write_all(&lines);
        drop(stdin);
        match guard.wait(PATIENCE).context("ssh")? {
            Some(status) if status.success() => Ok(()),
            Some(_) => {
                let mut said = guard.stderr_tail();
                launch::drop_ssh_reports(&mut said);
                Err(anyhow!(said.pop().unwrap_or_else(|| "ssh failed".to_owned())))
            }
            None => Err(anyhow!("timed out after {} s", PATIENCE.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn here(path: &Path) -> Location {
        Location { host: Host::Local, path: path.to_owned() }
    }

    #[test]
    fn only_the_scratch_directory_and_its_contents_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("theirs"), "theirs").unwrap();
        let (scratch, access) = (ScratchSpace::below(&here(dir.path()), 7).unwrap(), RemoteAccess::default());
        scratch.remove(&access).unwrap();
        scratch.create(&access).unwrap();
        assert!(format!("{:#}", scratch.create(&access).unwrap_err()).contains("could not be created"));
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
        let error = format!("{:#}", scratch.remove(&access).unwrap_err());
        assert!(error.ends_with("could not be removed: not created by this sweep"), "{error}");
        assert!(data.join("tree").exists());
    }

    /// Runs a script as another host does.
    fn run(script: &str, scratch: &ScratchSpace) -> (bool, String) {
        let script = script.replace("@MARKER@", MARKER).replace("@DATA@", DATA).replace("@FOREIGN@", FOREIGN);
        let mut shell = Command::new("sh");
        let (mut guard, mut stdin, _) = spawn_with(shell.args(["-c", &script]), Stdio::null()).unwrap();
        writeln!(stdin, "{}\n{}", scratch.directory.path.display(), scratch.token).unwrap();
        drop(stdin);
        let status = guard.wait(PATIENCE).unwrap().unwrap();
        (status.success(), guard.stderr_tail().join("\n"))
    }

    #[test]
    fn another_host_removes_only_its_own_files() {
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
