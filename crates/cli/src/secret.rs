//! Secrets and keys that stand in a file instead of on the command line.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;

use haul_engine::spec::{Host, Location, Pass, PrivateKey, PublicKey, Secret};
use haul_proto::path::escape;

use crate::args::UsageError;
use crate::args::values::Values;
use crate::resolve::shown;

/// A file with a secret is no longer than this.
const FILE_MAX: u64 = 4096;

/// What such a file has.
#[derive(Debug, Clone)]
pub enum Own {
    /// What a client and a server know.
    Secret(Secret),
    /// What only its owner has.
    Key(PrivateKey),
}

/// What is in the first line of `file`.
pub fn read(file: &OsStr) -> Result<Own, UsageError> {
    let shown = escape(file.as_bytes());
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(FILE_MAX).read_to_string(&mut text));
    read.map_err(|error| UsageError::new(format!("{shown}: {error}")))?;
    let line = text.lines().next().unwrap_or_default().trim();
    let own = Secret::parse(line).map(Own::Secret).or_else(|| PrivateKey::parse(line).map(Own::Key));
    own.ok_or_else(|| {
        UsageError::new(format!("{shown}: its first line is no secret (32 hexadecimal digits) and no private key"))
            .remedy("make a key with haul serve --new-key FILE, or a secret with\n(umask 077; head -c16 /dev/urandom | od -An -tx1 | tr -d ' \\n' >FILE)")
    })
}

/// Makes a private key in a new file, and returns the public one.
pub fn make_key(file: &OsStr) -> Result<PublicKey, UsageError> {
    let made = PrivateKey::new().and_then(|own| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        file.write_all(format!("{}\n", own.reveal()).as_bytes())?;
        own.public()
    });
    made.map_err(|error| UsageError::new(format!("--new-key {}: {error}", escape(file.as_bytes()))))
}

/// What was not typed of what clients prove themselves with is in `--secret-file`.
pub fn complete<'l>(values: &Values, locations: impl Iterator<Item = &'l mut Location>) -> Result<(), UsageError> {
    let mut wanting = Vec::new();
    for Location { host, .. } in locations {
        let shown = shown(host);
        if let Host::Served { pass, .. } = host
            && pass.line().is_none()
        {
            wanting.push((shown, pass));
        }
    }
    if wanting.is_empty() && values.is_typed("secret-file") {
        return Err(
            UsageError::new("--secret-file is for operands haul://HOST without a secret").remedy("leave it out")
        );
    }
    let file = values.last("secret-file").filter(|_| !wanting.is_empty());
    let own = file.map(read).transpose()?;
    for (shown, pass) in wanting {
        *pass = completed(std::mem::replace(pass, Pass::Missing), own.as_ref())
            .map_err(|(what, remedy)| UsageError::new(format!("{shown}: {what}")).remedy(remedy))?;
    }
    Ok(())
}

fn completed(pass: Pass, own: Option<&Own>) -> Result<Pass, (&'static str, &'static str)> {
    match (pass, own) {
        (Pass::Missing, Some(Own::Secret(secret))) => Ok(Pass::Secret(secret.clone())),
        (Pass::Server(server), Some(Own::Key(own))) => Ok(Pass::Keys { own: own.clone(), server }),
        (Pass::Missing, None) => {
            Err(("its secret is missing", "give the whole line that haul serve printed, or --secret-file FILE"))
        }
        (Pass::Server(_), None) => Err(("your key is missing", "give it with --secret-file FILE")),
        (Pass::Missing, Some(Own::Key(_))) => {
            Err(("the server's public key is missing", "give the whole line that haul serve printed"))
        }
        (Pass::Server(_), Some(Own::Secret(_))) => Err((
            "--secret-file has a secret, and the server's key is for those who have a key",
            "leave out #haul-public-...",
        )),
        (pass, _) => Ok(pass),
    }
}
