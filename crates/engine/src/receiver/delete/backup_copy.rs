//! Copies of entries for a backup directory on another file system.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use haul_proto::path::Name;
use haul_proto::wire::preserve::PreserveOptions;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, symlinkat, unlinkat};
use rustix::io::Errno;

use crate::fs::meta::{apply_to_node, apply_to_symlink, apply_with, make_node};
use crate::fs::{Dir, FileStat, FollowLinks, MetadataParts, attributes};
use crate::receiver::place::temp_names::make_temporary;

/// Copies the entry `name`, no directory, with its metadata into another directory, as far as permitted. Returns its
/// temporary name there, for the final name `kept`.
pub(super) fn copy_entry(dir: &Dir, name: &Name, into: &OwnedFd, kept: &Name, to_disk: bool) -> io::Result<Name> {
    let stat = FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)?;
    let keep = MetadataParts { owner: true, group: true, mode: Some(stat.meta.mode), times: true };
    match (stat.kind, stat.node()) {
        (FileType::Symlink, _) => {
            let text = readlinkat(&*dir.fd()?, name.as_bytes(), Vec::new())?;
            let temporary = make_temporary(into, kept, b"backup", |made| symlinkat(&text, into, made.as_bytes()))?;
            unless_failed(into, temporary, |made| apply_to_symlink(into, made, &stat.meta, keep).map(drop))
        }
        (_, Some(node)) => {
            let temporary = make_temporary(into, kept, b"backup", |made| make_node(into, made, node))?;
            unless_failed(into, temporary, |made| apply_to_node(into, made, &stat.meta, keep).map(drop))
        }
        _ => {
            let (file, stat) = dir.open_file(name, FollowLinks::Itself)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut copy = None;
            let temporary = make_temporary(into, kept, b"backup", |made| {
                copy = Some(openat(into, made.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?);
                Ok(())
            })?;
            unless_failed(into, temporary, |_| {
                let mut copy = File::from(copy.take().ok_or(Errno::NOENT)?);
                let preserve = PreserveOptions { attributes: true, acls: true, ..PreserveOptions::default() };
                let found = attributes::read(&file, preserve).unwrap_or_default();
                io::copy(&mut File::from(file), &mut copy)?;
                let _ = apply_with(&copy, &stat.meta, keep, || {
                    drop(attributes::set_attributes(&copy, &found, preserve));
                })?;
                if to_disk { copy.sync_all() } else { Ok(()) }
            })
        }
    }
}

/// Removes a new entry that could not be completed.
fn unless_failed(into: &OwnedFd, temporary: Name, complete: impl FnOnce(&Name) -> io::Result<()>) -> io::Result<Name> {
    match complete(&temporary) {
        Ok(()) => Ok(temporary),
        Err(error) => {
            let _ = unlinkat(into, temporary.as_bytes(), AtFlags::empty());
            Err(error)
        }
    }
}
