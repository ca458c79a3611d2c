//! The names of temporary files.
//!
//! Each final name has one temporary name, the same in every run. If another user's file, or any foreign entry,
//! occupies this name, a random name with the same first digits replaces it.

use std::io;
use std::os::fd::OwnedFd;

use haul_base::sys::random::random;
use haul_proto::checksum::hex;
use haul_proto::path::Name;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::fs::{Dir, each_name};

/// Most attempts to make an entry under a random name.
const RANDOM_NAMES_MAX: usize = 8;

/// The temporary name for a final name; `what` distinguishes purposes. See [`Name::is_reserved`].
pub fn temporary_name(name: &Name, what: &[u8]) -> Name {
    let digest = blake3::Hasher::new().update(what).update(b"\0").update(name.as_bytes()).finalize();
    Name::reserved(&digest.to_hex()[..24], "part")
}

/// Digits shared by all temporary names for the same purpose.
const SHARED_DIGITS: usize = 12;

/// A further temporary name for the same purpose: unpredictable, but recognised by its first digits.
pub fn random_name(expected: &Name) -> io::Result<Name> {
    let Some((digits, what)) = expected.reserved_parts() else { return Err(Errno::INVAL.into()) };
    let random: [u8; (24 - SHARED_DIGITS) / 2] = random()?;
    Ok(Name::reserved(&format!("{}{}", &digits[..SHARED_DIGITS], hex(&random)), what))
}

/// Whether two temporary names belong to the same final name, by their digits.
pub fn is_for_same_name(one: &Name, other: &Name) -> bool {
    let digits = |name: &Name| name.reserved_parts().map(|(digits, _)| digits[..SHARED_DIGITS].to_owned());
    digits(one) == digits(other)
}

/// Further temporary names in a directory for the same purpose as `expected`.
pub fn random_names(dir: &Dir, expected: &Name) -> io::Result<Vec<Name>> {
    let kind_of = |name: &Name| name.reserved_parts().map(|(_, what)| what.to_owned());
    let wanted = kind_of(expected);
    // A separate open file description: another thread may be reading the directory. An unreadable directory yields
    // none.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = match openat(&*dir.fd()?, c".", flags, Mode::empty()) {
        Err(Errno::ACCESS) => return Ok(Vec::new()),
        listed => Dir::from_fd(listed?)?,
    };
    let mut names = Vec::new();
    each_name(&listed, |name, kind| {
        if kind == FileType::RegularFile
            && name != expected
            && kind_of(name) == wanted
            && is_for_same_name(name, expected)
        {
            names.push(name.clone());
        }
    })?;
    Ok(names)
}

/// Creates an entry under a temporary name: the expected one, replacing leftovers of an earlier run, or a random one if
/// that is occupied.
pub fn make_temporary(
    dir: &OwnedFd,
    name: &Name,
    what: &[u8],
    mut make: impl FnMut(&Name) -> Result<(), Errno>,
) -> Result<Name, Errno> {
    let expected = temporary_name(name, what);
    let _ = unlinkat(dir, expected.as_bytes(), AtFlags::empty());
    let mut made = make(&expected).map(|()| expected.clone());
    for _ in 0..RANDOM_NAMES_MAX {
        if !matches!(made, Err(Errno::EXIST)) {
            break;
        }
        let random = random_name(&expected).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        made = make(&random).map(|()| random);
    }
    made
}

/// The name of another file for the same purpose: `part`, `journal` or `patch`.
pub fn sibling(name: &Name, what: &str) -> Name {
    name.reserved_parts().map_or_else(|| name.clone(), |(digits, _)| Name::reserved(digits, what))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_get_their_places_despite_occupied_temporary_names() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(place.path()).unwrap().fd().unwrap();
        let name = Name::new(b"final").unwrap();
        let taken = place.path().join(temporary_name(&name, b"link").to_string());
        fs::create_dir(&taken).unwrap();
        let make = |name: &Name| rustix::fs::symlinkat("to", &*dir, name.as_bytes());
        let made = make_temporary(&dir, &name, b"link", make).unwrap();
        assert!(made.is_reserved() && made != temporary_name(&name, b"link"));
        assert!(taken.is_dir());
        fs::remove_dir(&taken).unwrap();
        assert_eq!(make_temporary(&dir, &name, b"link", make).unwrap(), temporary_name(&name, b"link"));
    }
}
