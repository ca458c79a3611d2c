//! Configuration files: their places, and checks of their owners and modes.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::trusted_files::{Distrust, OthersMay, TrustError, read_own};
use haul_proto::path::escape;

use crate::args::UsageError;

/// Longest configuration file, in bytes.
pub const CONFIG_MAX: usize = 256 << 10;
/// A file without contents, which everyone can write.
const NULL_DEVICE: &str = "/dev/null";
/// The system's configuration file.
const SYSTEM: &str = "/etc/haul/config.toml";

/// The user's file.
pub fn users() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = variable("XDG_CONFIG_HOME").filter(|dir| dir.is_absolute());
    let users = config.or_else(|| variable("HOME").map(|home| home.join(".config")));
    users.map(|dir| dir.join("haul/config.toml"))
}

/// Returns the configuration files by precedence. A missing file is skipped.
pub fn places() -> Vec<PathBuf> {
    users().into_iter().chain([PathBuf::from(SYSTEM)]).collect()
}

/// A path in messages.
pub fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

/// Harm by the writer of a file of options.
const STARTS_COMMANDS: &str = "could make haul start commands";
/// Remedy for another user's file of options.
const NAME_ANOTHER: &str =
    "haul reads only your and root's files; --config FILE reads another one, --config /dev/null none";

/// Returns the contents of a file of options; `None` if it is absent.
pub fn read(path: &Path) -> Result<Option<String>, UsageError> {
    read_trusted(path, STARTS_COMMANDS, NAME_ANOTHER)
}

/// Returns the contents of a file that only this user and root can write; `None` if it is absent. The error names the
/// `harm` that another writer could do, and the `remedy` for another user's file.
pub fn read_trusted(path: &Path, harm: &str, remedy: &str) -> Result<Option<String>, UsageError> {
    if path == Path::new(NULL_DEVICE) {
        return Ok(Some(String::new()));
    }
    let bytes = match read_own(path, OthersMay::Read, CONFIG_MAX as u64) {
        Ok(bytes) => bytes,
        Err(error) if error.is_absent() || error.is_hidden() => return Ok(None),
        Err(error) => return Err(refusal(&error, harm, remedy)),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(UsageError::new(format!("{}: not a configuration: not UTF-8", shown(path)))),
    }
}

fn refusal(error: &TrustError, harm: &str, remedy: &str) -> UsageError {
    match (&error.why, error.hint()) {
        (Distrust::Owner(_), _) => UsageError::new(format!("{error}, who {harm}")).remedy(remedy),
        (Distrust::Writable, Some(hint)) => UsageError::new(format!("{error} and {harm}")).remedy(hint),
        _ => UsageError::new(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_writable_by_others_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        write(&file, "streams = 2\n").unwrap();
        let contents = |mode| {
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            read(&file).map_err(|error| error.to_string().replace(&*dir.path().to_string_lossy(), ""))
        };
        assert_eq!(contents(0o644), Ok(Some("streams = 2\n".into())));
        let remedy =
            "/config.toml: others can write it and could make haul start commands\nhint: chmod go-w /config.toml";
        assert_eq!([contents(0o666), contents(0o646)], [Err(remedy.into()), Err(remedy.into())]);
        let other = TrustError::of(&file, Distrust::Owner(8));
        let refused = refusal(&other, STARTS_COMMANDS, NAME_ANOTHER).to_string();
        assert!(refused.contains("another user (8), who could make haul start commands\nhint: haul reads only"));
    }

    #[test]
    fn a_missing_file_and_the_null_device_are_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&dir.path().join("absent/config.toml")), Ok(None));
        assert_eq!(read(Path::new("/dev/null")), Ok(Some(String::new())));
        assert!(read(dir.path()).is_err(), "a directory");
    }

    #[test]
    fn oversized_and_binary_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        write(&file, vec![b'#'; CONFIG_MAX]).unwrap();
        assert!(read(&file).is_ok());
        write(&file, vec![b'#'; CONFIG_MAX + 1]).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("larger than 262144 bytes"));
        write(&file, b"a = \"\xff\"").unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("not UTF-8"));
        assert!(read(Path::new("/dev/zero")).is_err());
    }
}
