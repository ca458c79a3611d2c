//! Linux-only calls of base.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::rand::{GetRandomFlags, getrandom};

/// A descriptor that is readable once this child has ended. `None` before Linux 5.3, and where a system call filter
/// forbids it (pidfd_open(2)).
pub fn process_end(child: Pid) -> Option<OwnedFd> {
    pidfd_open(child, PidfdFlags::empty()).ok()
}

/// Fills `bytes` with random ones from the kernel (getrandom(2)).
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let len = bytes.len();
    let got = getrandom(bytes, GetRandomFlags::empty())?;
    if got == len { Ok(()) } else { Err(io::Error::other("the kernel gave too few random bytes")) }
}

/// A file of `len` zeros in memory, without a path and with a fixed length (memfd_create(2)).
pub fn nameless_file(name: &CStr, len: u64) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// The path of this process's execve(2) (getauxval(3), `AT_EXECFN`).
pub fn started_by() -> Option<PathBuf> {
    // SAFETY: the call has no preconditions, and gives 0 for a value that the kernel did not pass.
    #[allow(unsafe_code)]
    let address = unsafe { libc::getauxval(libc::AT_EXECFN) };
    let text = std::ptr::with_exposed_provenance::<libc::c_char>(usize::try_from(address).ok()?);
    if text.is_null() {
        return None;
    }
    // SAFETY: for this value, the kernel passes the address of a string that ends with NUL and stays there, unchanged, for
    // the life of the process.
    #[allow(unsafe_code)]
    let path = unsafe { CStr::from_ptr(text) };
    std::path::absolute(Path::new(OsStr::from_bytes(path.to_bytes()))).ok()
}
