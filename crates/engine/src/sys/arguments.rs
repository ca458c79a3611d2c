//! The arguments of this process, as visible to others (proc(5), `cmdline`).

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::{fs, io, ptr};

/// Replaces each byte of a secret.
const FILLER: u8 = b'x';
/// Index of `arg_start` in `/proc/PID/stat`, from the field after the program's name.
const ARG_START_FIELD: usize = 45;

/// Overwrites the ranges that `secret` finds in `arguments`, the complete arguments of this process. To be called
/// before the first thread starts. An error leaves them unchanged.
pub fn overwrite(arguments: &[OsString], secret: impl Fn(&[u8]) -> Option<Range<usize>>) -> io::Result<()> {
    let (mut expected, mut secrets) = (Vec::new(), Vec::new());
    for argument in arguments.iter().map(|argument| argument.as_bytes()) {
        let found = secret(argument).filter(|range| range.start <= range.end && range.end <= argument.len());
        secrets.extend(found.map(|Range { start, end }| expected.len() + start..expected.len() + end));
        expected.extend_from_slice(argument);
        expected.push(0);
    }
    if secrets.is_empty() {
        return Ok(());
    }
    let stat = fs::read_to_string("/proc/self/stat")?;
    let start = parse_bounds(&stat).filter(|bounds| bounds.len() == expected.len());
    let start = start.ok_or_else(|| io::Error::other("the arguments are not at the expected address"))?.start;
    // SAFETY: the kernel has put the arguments of this process at this address, has just named it, and the memory stays
    // mapped and writable for the life of the process. It is as long as `expected`. There is no reference to it:
    // the standard library copies arguments whenever it is asked for them, and no other thread runs that could ask.
    #[allow(unsafe_code)]
    let there =
        unsafe { std::slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut::<u8>(start), expected.len()) };
    if *there != *expected {
        return Err(io::Error::other("unexpected arguments in memory"));
    }
    secrets.into_iter().for_each(|range| there[range].fill(FILLER));
    Ok(())
}

/// `arg_start` and `arg_end` of a line of `/proc/PID/stat`.
fn parse_bounds(stat: &str) -> Option<Range<usize>> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut bounds = fields.split_ascii_whitespace().skip(ARG_START_FIELD);
    let (start, end): (usize, usize) = (bounds.next()?.parse().ok()?, bounds.next()?.parse().ok()?);
    (0 < start && start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_match_the_arguments() {
        if haul_lab::is_emulated_without("view of its arguments") {
            return;
        }
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let bounds = parse_bounds(&stat).unwrap();
        assert_eq!(bounds.len(), fs::read("/proc/self/cmdline").unwrap().len());
        // A program's name can be anything.
        assert_eq!(parse_bounds(&stat.replacen('(', "(a) S 1 2 (", 1)), Some(bounds));
        assert_eq!(parse_bounds(&stat[..stat.len() / 2]), None);
    }

    #[test]
    fn only_the_arguments_of_the_process_are_overwritten() {
        let before = fs::read("/proc/self/cmdline").unwrap();
        let mut arguments: Vec<OsString> = std::env::args_os().collect();
        let all = |argument: &[u8]| Some(0..argument.len());
        arguments[0] = "x".repeat(arguments[0].len()).into();
        assert!(overwrite(&arguments, all).is_err(), "other bytes");
        arguments.push("more".into());
        assert!(overwrite(&arguments, all).is_err(), "another length");
        assert!(overwrite(&arguments, |_| None).is_ok(), "nothing to overwrite");
        assert_eq!(fs::read("/proc/self/cmdline").unwrap(), before);
    }
}
