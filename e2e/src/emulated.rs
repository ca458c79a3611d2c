//! haul for another architecture, where an emulator and an executable are present.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use haul_lab::emulating_aarch64;

use crate::{Haul, Sandbox};

/// haul for aarch64 under qemu.
#[derive(Debug)]
pub struct EmulatedHaul {
    /// The executable.
    pub executable: PathBuf,
    prefix: Vec<OsString>,
}

impl EmulatedHaul {
    /// The executable that `HAUL_AARCH64_BIN` names. `None`, and said, without it or without qemu.
    pub fn or_skip() -> Option<Self> {
        let Some(executable) = std::env::var_os("HAUL_AARCH64_BIN").map(PathBuf::from) else {
            println!("SKIPPED: HAUL_AARCH64_BIN names no haul for aarch64: use `cargo xtask emulate`");
            return None;
        };
        match emulating_aarch64() {
            Ok(prefix) => Some(Self { executable, prefix }),
            Err(why) => {
                println!("SKIPPED: {why}");
                None
            }
        }
    }

    /// A run of it in the sandbox.
    pub fn haul<'a>(&self, sandbox: &'a Sandbox) -> Haul<'a> {
        let mut command = Command::new(&self.prefix[0]);
        command.args(&self.prefix[1..]).arg(&self.executable);
        sandbox.call(command)
    }

    /// A shell script in place of ssh: runs the remote command as an aarch64 host would.
    pub fn host_script(&self) -> String {
        let quoted = |word: &OsString| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
        let words = self.prefix.iter().map(quoted).collect::<Vec<_>>().join(" ");
        format!("#!/bin/sh\nexec {words} sh -c \"$SSH_ORIGINAL_COMMAND\"\n")
    }
}
