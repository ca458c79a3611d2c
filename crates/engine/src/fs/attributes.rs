//! Extended attributes, and POSIX access control lists stored in them (xattr(7), acl(5)), of open files.

use std::io;
use std::os::fd::AsFd;

use haul_proto::entry_extras::{ExtendedAttribute, is_acl};
use haul_proto::limits::{ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX};
use haul_proto::wire::preserve::PreserveOptions;
use rustix::buffer::spare_capacity;
use rustix::fs::{
    Mode, XattrFlags, fchmod, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fremovexattr, fsetxattr,
};
use rustix::io::Errno;

use super::meta::FileStat;

/// The permission bit that lets a file's owner write to it.
const OWNER_WRITES: u16 = 0o200;

/// The error for more attributes than fit in a message.
const TOO_MANY: &str = "more than 64 KiB of extended attributes";

/// An attribute that could not be set.
#[derive(Debug)]
pub struct RefusedAttribute {
    /// Its name.
    pub name: Box<[u8]>,
    /// Why.
    pub error: io::Error,
}

/// Whether any are requested.
pub fn is_wanted(preserve: PreserveOptions) -> bool {
    preserve.attributes || preserve.acls
}

/// Attributes of an open file or directory to preserve. `None` without any.
pub fn read(file: impl AsFd, preserve: PreserveOptions) -> io::Result<Vec<ExtendedAttribute>> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for name in names(&file)?.split(|byte| *byte == 0).filter(|name| is_preserved(name, preserve)) {
        let Some(value) = value(&file, name)? else { continue };
        bytes += name.len() + value.len();
        if bytes > ATTRIBUTES_BYTES_MAX || found.len() == ATTRIBUTES_MAX {
            return Err(io::Error::other(TOO_MANY));
        }
        found.push(ExtendedAttribute { name: name.into(), value: value.into() });
    }
    Ok(found)
}

/// Gives an open file or directory exactly these attributes of the preserved kinds. Returns the first refused one, if
/// any; sets the others.
pub fn set_attributes(
    file: impl AsFd,
    wanted: &[ExtendedAttribute],
    preserve: PreserveOptions,
) -> Option<RefusedAttribute> {
    let there = read(&file, preserve).unwrap_or_default();
    let is_in = |attributes: &[ExtendedAttribute], name: &[u8]| attributes.iter().any(|other| *other.name == *name);
    let mut refused = None;
    let mut note = |name: &[u8], done: Result<(), Errno>| {
        if let Err(error) = done {
            refused.get_or_insert_with(|| RefusedAttribute { name: name.into(), error: error.into() });
        }
    };
    for ExtendedAttribute { name, .. } in there.iter().filter(|attribute| !is_in(wanted, &attribute.name)) {
        note(name, fremovexattr(&file, &**name));
    }
    for attribute in
        wanted.iter().filter(|attribute| is_preserved(&attribute.name, preserve) && !there.contains(attribute))
    {
        note(&attribute.name, fsetxattr(&file, &*attribute.name, &attribute.value, XattrFlags::empty()));
    }
    refused
}

/// What a directory's default access control list takes from the modes of new entries, in place of the umask (acl(5)).
/// `None` without such a list.
pub fn default_acl_mask(dir: impl AsFd) -> Option<u16> {
    let [owner, group, mask, other] = [0x01, 0x04, 0x10, 0x20];
    let list = value(&dir, b"system.posix_acl_default").ok()??;
    let number = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let entries: Vec<_> = list.get(4..)?.chunks_exact(8).map(|entry| (number(entry, 0), number(entry, 2))).collect();
    let of = |tag: u16| entries.iter().find(|(found, _)| *found == tag).map(|(_, permissions)| permissions & 7);
    Some(0o777 & !(of(owner)? << 6 | of(mask).or_else(|| of(group))? << 3 | of(other)?))
}

/// Removes the access control lists of an open directory.
pub fn remove_acls(dir: impl AsFd) -> io::Result<()> {
    for name in [c"system.posix_acl_default", c"system.posix_acl_access"] {
        match fremovexattr(&dir, name) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sets attributes, with temporary write permission for the owner if necessary.
pub fn put_as_owner(
    file: impl AsFd,
    wanted: &[ExtendedAttribute],
    preserve: PreserveOptions,
) -> Option<RefusedAttribute> {
    let refused = set_attributes(&file, wanted, preserve)?;
    if Errno::from_io_error(&refused.error) != Some(Errno::ACCESS) {
        return Some(refused);
    }
    match FileStat::at_fd(&file) {
        Ok(stat) if stat.meta.mode & OWNER_WRITES == 0 => {
            if set_mode(&file, stat.meta.mode | OWNER_WRITES).is_err() {
                return Some(refused);
            }
        }
        _ => return Some(refused),
    }
    let refused = set_attributes(&file, wanted, preserve);
    // An access control list may have changed the other bits.
    let restored = FileStat::at_fd(&file).and_then(|stat| set_mode(&file, stat.meta.mode & !OWNER_WRITES));
    refused.or(restored.err().map(|error| RefusedAttribute { name: (*b"mode").into(), error }))
}

fn set_mode(file: impl AsFd, mode: u16) -> io::Result<()> {
    Ok(fchmod(file, Mode::from_raw_mode(mode.into()))?)
}

/// Whether an attribute of this name is preserved: user attributes, capabilities, and trusted ones. Labels of security
/// modules belong to the machine, and private attributes to their file system.
fn is_preserved(name: &[u8], preserve: PreserveOptions) -> bool {
    match name {
        name if is_acl(name) => preserve.acls,
        b"security.capability" => preserve.attributes && !preserve.without_capabilities,
        name => preserve.attributes && (name.starts_with(b"user.") || name.starts_with(b"trusted.")),
    }
}

fn names(file: impl AsFd) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    let listed = flistxattr_query(&file).and_then(|len| {
        names.reserve(len);
        if len > 0 { flistxattr(&file, spare_capacity(&mut names)).map(drop) } else { Ok(()) }
    });
    match listed {
        Ok(()) => Ok(names),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The value of an attribute; `None` if it has vanished.
fn value(file: impl AsFd, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut value = Vec::new();
    let read = fgetxattr_query(&file, name).and_then(|len| {
        value.reserve(len);
        if len > 0 { fgetxattr(&file, name, spare_capacity(&mut value)).map(drop) } else { Ok(()) }
    });
    match read {
        Ok(()) => Ok(Some(value)),
        Err(Errno::NODATA) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTRIBUTES: PreserveOptions = PreserveOptions { attributes: true, ..NOTHING };
    const NOTHING: PreserveOptions = PreserveOptions {
        holes: haul_proto::wire::preserve::HolePolicy::Keep,
        hard_links: false,
        attributes: false,
        acls: false,
        devices: false,
        specials: false,
        without_capabilities: false,
    };

    #[test]
    fn a_default_acl_takes_the_place_of_the_umask() {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::open(dir.path()).unwrap();
        assert_eq!(default_acl_mask(&file), None);
        let list = |entries: &[[u8; 2]]| {
            let of = |[tag, permissions]: [u8; 2]| [tag, 0, permissions, 0, 255, 255, 255, 255];
            [vec![2, 0, 0, 0], entries.iter().flat_map(|entry| of(*entry)).collect()].concat()
        };
        for (entries, mask) in
            [(&[[1, 7], [4, 5], [0x20, 0]][..], 0o027), (&[[1, 6], [4, 7], [0x10, 1], [0x20, 4]], 0o163)]
        {
            let set = fsetxattr(&file, c"system.posix_acl_default", &list(entries), XattrFlags::empty());
            if set.is_err() {
                println!("SKIPPED: no access control lists here");
                return;
            }
            assert_eq!(default_acl_mask(&file), Some(mask));
        }
    }

    fn attribute(name: &str, value: &[u8]) -> ExtendedAttribute {
        ExtendedAttribute { name: name.as_bytes().into(), value: value.into() }
    }

    #[test]
    fn exactly_the_set_attributes_are_there() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = [attribute("user.a", b"1"), attribute("user.empty", b"")];
        if let Some(RefusedAttribute { error, .. }) = set_attributes(&file, &first, ATTRIBUTES) {
            println!("SKIPPED: no extended attributes here: {error}");
            return;
        }
        let sorted = |file: &tempfile::NamedTempFile| {
            let mut found = read(file, ATTRIBUTES).unwrap();
            found.sort_by(|a, b| a.name.cmp(&b.name));
            found
        };
        assert_eq!(sorted(&file), first);
        let second = [attribute("user.a", b"2"), attribute("user.b", &[0, 255])];
        assert!(set_attributes(&file, &second, ATTRIBUTES).is_none());
        assert_eq!(sorted(&file), second);
        assert_eq!(read(&file, NOTHING).unwrap(), []);
        // What a peer says, and is not to be kept, is not put; what cannot be is said.
        assert!(set_attributes(&file, &[attribute("security.selinux", b"x")], NOTHING).is_none());
        let refused = set_attributes(&file, &[attribute("user.", b"x"), attribute("user.c", b"x")], ATTRIBUTES);
        assert_eq!(*refused.unwrap().name, *b"user.");
        assert_eq!(sorted(&file), [attribute("user.c", b"x")]);
    }

    #[test]
    fn labels_and_strangers_are_left_alone() {
        let all = PreserveOptions { acls: true, ..ATTRIBUTES };
        for name in ["security.selinux", "security.ima", "system.nfs4_acl", "btrfs.compression", "", "user"] {
            assert!(!is_preserved(name.as_bytes(), all), "{name}");
        }
        assert!(is_preserved(b"system.posix_acl_access", all) && !is_preserved(b"system.posix_acl_access", ATTRIBUTES));
        assert!(
            is_preserved(b"trusted.x", ATTRIBUTES)
                && !is_preserved(b"user.x", PreserveOptions { acls: true, ..NOTHING })
        );
    }
}
