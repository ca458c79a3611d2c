//! Descriptors that a child inherits besides its standard ones: under their own numbers, by this child only.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};

/// The first number after the standard descriptors.
const STANDARD: RawFd = 3;

/// Lets the child of `command` inherit `fd`. Returns its number there.
pub fn hand_over(command: &mut Command, fd: &Arc<OwnedFd>) -> io::Result<RawFd> {
    // Above the standard descriptors, which the child replaces.
    let kept = fcntl_dupfd_cloexec(&**fd, STANDARD)?;
    let number = kept.as_raw_fd();
    let keep = move || Ok(fcntl_setfd(&kept, FdFlags::empty())?);
    // SAFETY: between fork and exec, the closure makes one system call (fcntl(2), async-signal-safe) and allocates
    // nothing. The descriptor is open: the closure owns it, and the command the closure.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(keep);
    }
    Ok(number)
}

/// Takes the inherited descriptor with this number. To be called once per number, before anything else is opened.
pub fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number < STANDARD {
        return Err(io::Error::other("a standard descriptor cannot be inherited"));
    }
    // SAFETY: the number is not negative, and is only used to test whether it is a descriptor.
    #[allow(unsafe_code)]
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed)?;
    // SAFETY: it is open, as just checked. Nothing in this process owns it: the parent opened it and passed its number,
    // and nothing has been opened here yet.
    #[allow(unsafe_code)]
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&owned, FdFlags::CLOEXEC)?;
    Ok(owned)
}

/// Duplicates an inherited descriptor, by its number. What this process opened itself is not inherited.
pub fn duplicate(number: u32) -> io::Result<OwnedFd> {
    let number = RawFd::try_from(number).map_err(|_| Errno::BADF)?;
    // SAFETY: the number is not negative. It is used for two calls, which fail if it is no descriptor.
    #[allow(unsafe_code)]
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    match fcntl_getfd(borrowed)?.contains(FdFlags::CLOEXEC) {
        true => Err(Errno::BADF.into()),
        false => Ok(fcntl_dupfd_cloexec(borrowed, STANDARD)?),
    }
}

/// Keeps all descriptors of this process, inherited ones as well, from children that are started later, except for the
/// standard ones.
pub fn keep_from_children() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        if number < STANDARD {
            continue;
        }
        // SAFETY: the number is not negative. It is used for one call, which fails if it is no descriptor any more.
        #[allow(unsafe_code)]
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl_setfd(borrowed, FdFlags::CLOEXEC);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn only_the_intended_child_inherits_a_descriptor() {
        let (mut reading, writing) = io::pipe().unwrap();
        let writing = Arc::new(OwnedFd::from(writing));
        // Not every shell knows numbers of two digits behind >&.
        let script = |number| format!("echo said >/proc/self/fd/{number}");
        let mut command = Command::new("sh");
        let number = hand_over(&mut command, &writing).unwrap();
        let without = Command::new("sh").args(["-c", &script(number)]).stderr(Stdio::null()).status().unwrap();
        assert!(!without.success(), "it was not meant for this one");
        assert!(command.args(["-c", &script(number)]).status().unwrap().success());
        drop((command, writing));
        let mut text = String::new();
        reading.read_to_string(&mut text).unwrap();
        assert_eq!(text, "said\n");
    }

    #[test]
    fn a_missing_descriptor_cannot_be_inherited() {
        assert!(adopt(1).is_err() && adopt(-1).is_err() && adopt(1 << 20).is_err());
    }
}
