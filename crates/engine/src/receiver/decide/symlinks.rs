//! Symbolic links at the target.

use std::io;

use haul_proto::entry::Entry;
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::path::Name;
use rustix::fs::{CWD, RenameFlags, renameat_with, symlinkat};

use crate::fs::meta::apply_to_symlink;
use crate::fs::{Dir, MetadataParts, lookup};
use crate::metrics::counter::add;
use crate::receiver::decide::{EntryDecider, EntryResult};
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition};
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::ExistingStat;
use crate::receiver::place::temp_names::make_temporary;

impl EntryDecider {
    /// Creates a symbolic link, with its metadata.
    pub(super) fn symlink(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        points_to: &[u8],
        decided: &EntryDecision,
        there: &ExistingStat,
    ) -> EntryResult {
        let (EntryPosition { dir, name, .. }, decision) = (position, decided.decision);
        let is_kept = decision == OverwriteDecision::Keep;
        match decision {
            OverwriteDecision::Keep => {}
            OverwriteDecision::ReplaceTree => {
                let temporary = make_temporary_link(dir, name, points_to).map_err(FileError::of_symlink)?;
                self.parts.removals.replace_directory(dir, &temporary, name, &decided.removal)?;
            }
            OverwriteDecision::Replace => {
                self.parts.removals.back_up(dir, name)?;
                make_link(dir, name, points_to, true).map_err(FileError::of_symlink)?;
            }
            _ => make_link(dir, name, points_to, false).map_err(FileError::of_symlink)?,
        }
        let changes = !self.parts.copy.creates_only || !is_kept;
        let has_time = there.stat.is_some_and(|stat| is_kept && stat.meta.modified == entry.meta.modified);
        let keep = match changes {
            true => {
                self.parts.metadata.preserved_parts(None, !has_time && self.parts.copy.request.metadata.times.symlinks)
            }
            false => MetadataParts { owner: false, group: false, mode: None, times: false },
        };
        let applied = apply_to_symlink(&*dir.fd()?, name, &entry.meta, keep)?;
        // Another user's link, or a file system without link times: the link itself exists.
        let is_reported = self.parts.copy.request.metadata.is_required;
        let place = EntryPlace { is_reported, ..EntryPlace::in_directory(dir, name) };
        self.parts.metadata.record_refusals(place, &applied);
        self.parts.copy.report_decision(position, entry, decided);
        add(&self.parts.copy.reporter.tally.symlinks, 1);
        self.known_to_be_same(position, false)
    }

    /// Whether a symbolic link leads out of the served directory. In a dry run, its own directory may only be planned.
    pub(super) fn leads_out(&self, dir: &Dir, points_to: &[u8]) -> io::Result<bool> {
        let (mut at, mut absent) = (dir, 0);
        while at.is_absent() {
            absent += 1;
            match at.parent() {
                Some(parent) => at = parent,
                None => {
                    return Ok(lookup::leads_out(CWD, absent + self.parts.copy.destination.missing_depth(), points_to));
                }
            }
        }
        Ok(lookup::leads_out(&*at.fd()?, absent, points_to))
    }
}

/// Creates a symbolic link. A replacement is created under a temporary name and renamed.
pub(crate) fn make_link(dir: &Dir, name: &Name, points_to: &[u8], replace: bool) -> io::Result<()> {
    let fd = dir.fd()?;
    if !replace {
        return Ok(symlinkat(points_to, &*fd, name.as_bytes())?);
    }
    let temporary = make_temporary_link(dir, name, points_to)?;
    Ok(renameat_with(&*fd, temporary.as_bytes(), &*fd, name.as_bytes(), RenameFlags::empty())?)
}

fn make_temporary_link(dir: &Dir, name: &Name, points_to: &[u8]) -> io::Result<Name> {
    let dir = dir.fd()?;
    Ok(make_temporary(&dir, name, b"link", |temporary| symlinkat(points_to, &*dir, temporary.as_bytes()))?)
}
