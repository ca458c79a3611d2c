//! Known hashes of executables: what a host has verified of its own, for the next start through the same login, and that
//! of this one. A host without instructions for SHA-256 takes 4 ms for a megabyte.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The record of this host's executable.
const OWN: &str = "this-host";
/// The end of these files' names.
const SUFFIX: &str = ".verified";
/// Age of files of former logins.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Most bytes of an identity with the SHA-256.
const LENGTH_MAX: usize = 200;

/// The record of a login: the SHA-256, and the device, inode, size and last change of the file that has it. Whoever
/// changes that file changes this.
#[derive(Debug, Default)]
pub(super) struct VerifiedExecutable(Option<PathBuf>);

impl VerifiedExecutable {
    /// The record of the login with this name, in a directory of this user alone.
    pub(super) fn of(directory: &Path, name: &str) -> Self {
        Self(Some(directory.join(name.to_owned() + SUFFIX)))
    }

    /// The record of the executable that runs here.
    pub(super) fn of_this_host(directory: &Path) -> Self {
        Self::of(directory, OWN)
    }

    /// Returns the SHA-256 of the file with this identity, if it is known.
    pub(super) fn sha256_of(&self, identity: &str) -> Option<String> {
        let known = self.read()?;
        let (sha256, of) = known.split_once(' ')?;
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hash && of == identity).then(|| sha256.to_owned())
    }

    /// Returns what the host has verified.
    pub(super) fn read(&self) -> Option<String> {
        fs::read_to_string(self.0.as_deref()?).ok().filter(|text| is_plain(text))
    }

    /// Replaces the record, and removes those of former logins. Without it, the host verifies again.
    pub(super) fn write(&self, verified: &str) {
        let Some(path) = self.0.as_deref().filter(|_| is_plain(verified)) else { return };
        let _ = fs::write(path, verified);
        let beside = path.parent().and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten().flatten();
        let is_old = |entry: &fs::DirEntry| {
            let modified = entry.metadata().and_then(|found| found.modified()).ok();
            modified.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > AGE_MAX)
        };
        let is_record = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().ends_with(SUFFIX);
        beside.filter(|entry| is_record(entry) && is_old(entry)).for_each(|entry| drop(fs::remove_file(entry.path())));
    }
}

/// The identity of a file: whoever changes the file changes it.
pub(super) fn identity(found: &Metadata) -> String {
    format!("{}:{}:{}:{}.{:09}", found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec())
}

/// Whether no shell finds anything to change in it.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" :.+-".contains(&byte);
    !text.is_empty() && text.len() <= LENGTH_MAX && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_plain_text_is_kept_and_old_records_go() {
        let directory = tempfile::tempdir().unwrap();
        let record = VerifiedExecutable::of(directory.path(), "ab");
        assert_eq!(record.read(), None);
        let old = directory.path().join("cd.verified");
        File::create(&old).unwrap().set_modified(SystemTime::now() - 2 * AGE_MAX).unwrap();
        for verified in ["", "ab \"; rm -rf x; \"", "$(x)", "a\nb", &"a".repeat(LENGTH_MAX + 1)] {
            record.write(verified);
            assert_eq!(record.read(), None, "{verified}");
        }
        record.write("abcd 5:17:300:2026-11-29 12:00:00.123456789 +0100");
        assert_eq!(record.read().as_deref(), Some("abcd 5:17:300:2026-11-29 12:00:00.123456789 +0100"));
        assert!(!old.exists());
        fs::write(directory.path().join("ab.verified"), "`x`").unwrap();
        assert_eq!(record.read(), None);
    }
}
