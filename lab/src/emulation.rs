//! Programs for another architecture, under qemu's user-mode emulation.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{find_program, output_of};

/// Registers qemu in a user namespace alone, for child processes of the program; then starts the program.
const REGISTER: &str = r#"
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
printf '%s' "$1" > /proc/sys/fs/binfmt_misc/register || exit 125
shift
exec "$@"
"#;
/// Headers of executables for 64-bit ARM: the bytes, and those bits of them that count.
const AARCH64: &str = r"M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";

/// The words before a command that let it and all that it starts be programs for aarch64.
///
/// # Errors
///
/// Where qemu is not installed.
pub fn emulating_aarch64() -> Result<Vec<OsString>> {
    let emulator = find_program("qemu-aarch64-static")
        .context("qemu-aarch64-static is not installed: apt-get install qemu-user-static")?;
    let words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", REGISTER, "sh"];
    let registration = format!(":haul-aarch64:{AARCH64}:{}:F", emulator.display());
    Ok(words.into_iter().map(OsString::from).chain([registration.into()]).collect())
}

/// Whether this test runs under an emulator, which lacks `what`. The printed line marks the test as skipped.
pub fn is_emulated_without(what: &str) -> bool {
    let machine = output_of(Command::new("uname").arg("-m"));
    let is_emulated = machine.is_ok_and(|machine| machine.trim() != std::env::consts::ARCH);
    if is_emulated {
        println!("SKIPPED: under emulation there is no {what}");
    }
    is_emulated
}
