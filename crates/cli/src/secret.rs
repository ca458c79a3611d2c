//! Secrets and keys in files instead of on the command line.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use haul_base::job::location::{Host, Location};
use haul_base::job::spec::{ClientCredentials, PrivateKey, PublicKey, Secret};
use haul_proto::path::escape;

use crate::args::operand::host_label;
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Longest file with a secret.
const FILE_MAX: u64 = 4096;
/// Opening never blocks, even on a FIFO.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// The contents of such a file.
#[derive(Debug, Clone)]
pub enum SecretFileState {
    /// A secret shared by client and server.
    Secret(Secret),
    /// A private key.
    Key(PrivateKey),
}

/// Reads the first line of `file`.
pub fn read(file: &OsStr) -> Result<SecretFileState, UsageError> {
    let shown = escape(file.as_bytes());
    let mut text = String::new();
    let failed = |error: std::io::Error| UsageError::new(format!("{shown}: {error}"));
    let opened = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(file).map_err(failed)?;
    check_private(Path::new(file), &opened)?;
    opened.take(FILE_MAX).read_to_string(&mut text).map_err(failed)?;
    let line = text.lines().next().unwrap_or_default().trim();
    let own =
        Secret::parse(line).map(SecretFileState::Secret).or_else(|| PrivateKey::parse(line).map(SecretFileState::Key));
    own.ok_or_else(|| {
        UsageError::new(format!("{shown}: the first line is neither a secret (32 hexadecimal digits) nor a private key"))
            .remedy("make a key with haul serve --new-key FILE, or a secret with\n(umask 077; head -c16 /dev/urandom | od -An -tx1 | tr -d ' \\n' >FILE)")
    })
}

/// Refuses a file that others may read or write.
fn check_private(path: &Path, file: &File) -> Result<(), UsageError> {
    let shown = escape(path.as_os_str().as_bytes());
    let failed = |error: std::io::Error| UsageError::new(format!("{shown}: {error}"));
    let user = rustix::process::geteuid().as_raw();
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(UsageError::new(format!("{shown}: not a file")));
    }
    if let Some(why) = exposes_file(user, found.uid(), found.mode()) {
        return Err(match why {
            Exposed::Owner(owner) => UsageError::new(format!("{shown}: belongs to another user ({owner})"))
                .remedy("copy it to a file of your own"),
            Exposed::Mode => {
                UsageError::new(format!("{shown}: others can read or write it (mode {:03o})", found.mode() & 0o777))
                    .remedy(format!("chmod 600 {}", quoted(path)))
            }
        });
    }
    // Writers of its directory can replace the file. A link's own directory counts too.
    let real = std::fs::canonicalize(path).map_err(failed)?;
    for directory in [path, &real].map(directory_of) {
        let found = std::fs::metadata(directory).map_err(failed)?;
        let of_directory = escape(directory.as_os_str().as_bytes());
        match exposes_directory(user, found.uid(), found.gid(), found.mode()) {
            None => {}
            Some(Exposed::Owner(owner)) => {
                return Err(UsageError::new(format!(
                    "{shown}: its directory, {of_directory}, belongs to another user ({owner})"
                ))
                .remedy("move it into a directory of your own"));
            }
            Some(Exposed::Mode) => {
                return Err(UsageError::new(format!("{shown}: others can write to its directory, {of_directory}"))
                    .remedy(format!("chmod go-w {}", quoted(directory))));
            }
        }
    }
    Ok(())
}

/// A reason why a file or directory exposes a secret.
#[derive(Debug, PartialEq, Eq)]
enum Exposed {
    /// Its owner is this user: neither root nor the caller.
    Owner(u32),
    /// Its mode permits others.
    Mode,
}

/// Whether a file is exposed. root's file may be readable by its group: services get secrets that way.
fn exposes_file(user: u32, owner: u32, mode: u32) -> Option<Exposed> {
    let allowed = if owner == user { 0o700 } else { 0o740 };
    match owner == user || owner == 0 {
        false => Some(Exposed::Owner(owner)),
        true => (mode & 0o777 & !allowed != 0).then_some(Exposed::Mode),
    }
}

/// Whether a directory is exposed. A group with the user's number may write: it is the user's own.
fn exposes_directory(user: u32, owner: u32, group: u32, mode: u32) -> Option<Exposed> {
    let is_sticky = mode & 0o1000 != 0;
    let open = if group == user && owner == user { 0o002 } else { 0o022 };
    match owner == user || owner == 0 {
        false => Some(Exposed::Owner(owner)),
        true => (mode & open != 0 && !is_sticky).then_some(Exposed::Mode),
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let shown = escape(path.as_os_str().as_bytes());
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:".contains(letter);
    if shown.chars().all(is_plain) { shown } else { format!("'{}'", shown.replace('\'', "'\\''")) }
}

/// Creates a private key in a new file, and returns the public key.
pub fn make_key(file: &OsStr) -> Result<PublicKey, UsageError> {
    let made = PrivateKey::new().and_then(|own| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        file.write_all(format!("{}\n", own.reveal()).as_bytes())?;
        own.public()
    });
    made.map_err(|error| UsageError::new(format!("--new-key {}: {error}", escape(file.as_bytes()))))
}

/// Completes credentials that were not typed from `--secret-file`.
pub fn complete<'l>(values: &Values, locations: impl Iterator<Item = &'l mut Location>) -> Result<(), UsageError> {
    let mut wanting = Vec::new();
    for Location { host, .. } in locations {
        let shown = host_label(host);
        if let Host::Served { pass, .. } = host
            && pass.line().is_none()
        {
            wanting.push((shown, pass));
        }
    }
    if wanting.is_empty() && values.is_typed(&flags::SECRET_FILE) {
        return Err(
            UsageError::new("--secret-file needs a source or target haul://HOST without a secret").remedy("omit it")
        );
    }
    let file = values.last(&flags::SECRET_FILE).filter(|_| !wanting.is_empty());
    let own = file.map(read).transpose()?;
    for (shown, pass) in wanting {
        *pass = completed(std::mem::replace(pass, ClientCredentials::Missing), own.as_ref())
            .map_err(|(what, remedy)| UsageError::new(format!("{shown}: {what}")).remedy(remedy))?;
    }
    Ok(())
}

fn completed(
    pass: ClientCredentials,
    own: Option<&SecretFileState>,
) -> Result<ClientCredentials, (&'static str, &'static str)> {
    match (pass, own) {
        (ClientCredentials::Missing, Some(SecretFileState::Secret(secret))) => {
            Ok(ClientCredentials::Secret(secret.clone()))
        }
        (ClientCredentials::Server(server), Some(SecretFileState::Key(own))) => {
            Ok(ClientCredentials::Keys { own: own.clone(), server })
        }
        (ClientCredentials::Missing, None) => {
            Err(("its secret is missing", "use the whole address that haul serve printed, or --secret-file FILE"))
        }
        (ClientCredentials::Server(_), None) => Err(("your key is missing", "give it with --secret-file FILE")),
        (ClientCredentials::Missing, Some(SecretFileState::Key(_))) => {
            Err(("the server's public key is missing", "use the whole address that haul serve printed"))
        }
        (ClientCredentials::Server(_), Some(SecretFileState::Secret(_))) => Err((
            "--secret-file has a secret, but the server's public key needs a private key",
            "omit #haul-public-...",
        )),
        (pass, _) => Ok(pass),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_files_of_the_user_and_of_root_keep_a_secret() {
        for (owner, mode, exposed) in [
            (7, 0o600, None),
            (7, 0o400, None),
            (7, 0o640, Some(Exposed::Mode)),
            (7, 0o604, Some(Exposed::Mode)),
            (7, 0o602, Some(Exposed::Mode)),
            (0, 0o640, None),
            (0, 0o660, Some(Exposed::Mode)),
            (0, 0o644, Some(Exposed::Mode)),
            (8, 0o600, Some(Exposed::Owner(8))),
        ] {
            assert_eq!(exposes_file(7, owner, mode), exposed, "{owner} {mode:o}");
        }
        for (owner, group, mode, exposed) in [
            (7, 7, 0o775, None),
            (7, 9, 0o775, Some(Exposed::Mode)),
            (7, 7, 0o777, Some(Exposed::Mode)),
            (0, 0, 0o1777, None),
            (0, 7, 0o775, Some(Exposed::Mode)),
            (0, 0, 0o755, None),
            (8, 8, 0o755, Some(Exposed::Owner(8))),
        ] {
            assert_eq!(exposes_directory(7, owner, group, mode), exposed, "{owner} {group} {mode:o}");
        }
    }

    #[test]
    fn the_message_names_the_command_to_run() {
        let place = tempfile::tempdir().unwrap();
        let (directory, link) = (place.path().join("a dir"), place.path().join("link"));
        create_dir(&directory).unwrap();
        let file = directory.join("secret");
        write(&file, "0f".repeat(16)).unwrap();
        symlink(&file, &link).unwrap();
        let set = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let result = |path: &Path| read(path.as_os_str()).map(|_| ()).map_err(|error| error.to_string());
        set(&directory, 0o755);
        set(&file, 0o644);
        for path in [&file, &link] {
            let error = result(path).unwrap_err();
            assert!(
                error.contains("(mode 644)") && error.contains("chmod 600 '") | error.contains("chmod 600 /"),
                "{error}"
            );
        }
        set(&file, 0o600);
        assert_eq!((result(&file), result(&link)), (Ok(()), Ok(())));
        set(&directory, 0o757);
        for path in [&file, &link] {
            let error = result(path).unwrap_err();
            assert!(error.contains("chmod go-w '") && error.contains("a dir"), "{error}");
        }
        set(&directory, 0o1777);
        assert_eq!(result(&file), Ok(()));
    }
}
