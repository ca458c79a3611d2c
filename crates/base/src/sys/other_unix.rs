//! The operating system's calls of base on other systems than Linux. No test runs it: it only has to compile.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use haul_proto::checksum::hex;
use rustix::process::Pid;

/// Not available: the child is polled.
pub fn process_end(_: Pid) -> Option<OwnedFd> {
    None
}

/// Fills `bytes` with random ones from the kernel.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    File::open("/dev/urandom")?.read_exact(bytes)
}

/// A file of `len` zeros, whose path is removed at once.
pub fn nameless_file(name: &CStr, len: u64) -> io::Result<OwnedFd> {
    let mut random = [0; 16];
    fill_random(&mut random)?;
    let path = std::env::temp_dir().join(format!("{}-{}", name.to_string_lossy(), hex(&random)));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    file.set_len(len)?;
    Ok(file.into())
}

/// Not available.
pub fn started_by() -> Option<PathBuf> {
    None
}
