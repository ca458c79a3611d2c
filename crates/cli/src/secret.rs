//! Secrets that stand in a file instead of on the command line.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use haul_engine::spec::Secret;
use haul_proto::path::escape;

use crate::args::UsageError;

/// A file with a secret is no longer than this.
const FILE_MAX: u64 = 4096;

/// The secret in the first line of `file`.
pub fn read(file: &OsStr) -> Result<Secret, UsageError> {
    let shown = escape(file.as_bytes());
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(FILE_MAX).read_to_string(&mut text));
    read.map_err(|error| UsageError::new(format!("--secret-file {shown}: {error}")))?;
    let secret = text.lines().next().and_then(|line| Secret::parse(line.trim()));
    secret.ok_or_else(|| {
        UsageError::new(format!("--secret-file {shown}: its first line is no secret (32 hexadecimal digits)"))
            .remedy("make one with: (umask 077; head -c16 /dev/urandom | od -An -tx1 | tr -d ' \\n' >FILE)")
    })
}
