//! Secrets and keys in files instead of on the command line.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{ClientCredentials, PrivateKey, PublicKey, Secret};
use haul_base::trusted_files::{OthersMay, TrustError, read_own};
use haul_base::usage_error::UsageError;
use haul_proto::path::escape;

use crate::operand::host_label;

/// Longest file with a secret.
const FILE_MAX: u64 = 4096;

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
    let bytes = read_own(Path::new(file), OthersMay::Nothing, FILE_MAX).map_err(|error| refusal(&error))?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default().trim();
    let own =
        Secret::parse(line).map(SecretFileState::Secret).or_else(|| PrivateKey::parse(line).map(SecretFileState::Key));
    own.ok_or_else(|| {
        UsageError::new(format!("{shown}: the first line is neither a secret (32 hexadecimal digits) nor a private key"))
            .remedy("make a key with haul serve --new-key FILE, or a secret with\n(umask 077; head -c16 /dev/urandom | od -An -tx1 | tr -d ' \\n' >FILE)")
    })
}

fn refusal(error: &TrustError) -> UsageError {
    let refused = UsageError::new(error.to_string());
    error.hint().into_iter().fold(refused, UsageError::remedy)
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

/// Completes credentials that were not typed from `file`. A typed `--secret-file` without use is an error.
pub fn complete<'l>(
    file: Option<&OsStr>,
    is_typed: bool,
    locations: impl Iterator<Item = &'l mut Location>,
) -> Result<(), UsageError> {
    let mut wanting = Vec::new();
    for Location { host, .. } in locations {
        let shown = host_label(host);
        if let Host::Served { pass, .. } = host
            && pass.line().is_none()
        {
            wanting.push((shown, pass));
        }
    }
    if wanting.is_empty() && is_typed {
        return Err(
            UsageError::new("--secret-file needs a source or target haul://HOST without a secret").remedy("omit it")
        );
    }
    let file = file.filter(|_| !wanting.is_empty());
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
