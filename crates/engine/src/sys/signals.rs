//! Ignores SIGHUP so that children inherit it: no safe crate offers that.
//!
//! A handler does not suffice: exec replaces handlers with the default, and ssh would die of the hangup.

use std::io;

/// Ignores SIGHUP in this process and in all its child programs. Returns whether it was ignored before, as under
/// nohup(1).
pub fn ignore_hangup() -> io::Result<bool> {
    // SAFETY: signal(2) takes two integers and has no memory to violate; SIG_IGN installs no function,
    // so no code of this process ever runs in a signal's context.
    #[allow(unsafe_code)]
    let previous = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    match previous {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        previous => Ok(previous == libc::SIG_IGN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_inherit_it() {
        ignore_hangup().unwrap();
        assert!(ignore_hangup().unwrap(), "it is ignored by now");
        let output = std::process::Command::new("grep").args(["SigIgn", "/proc/self/status"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mask = u64::from_str_radix(text.trim_start_matches("SigIgn:").trim(), 16).unwrap();
        assert_eq!(mask & 1, 1, "bit 0 stands for signal 1: {text}");
    }
}
