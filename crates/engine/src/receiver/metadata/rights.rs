//! Trust in existing files: the one place that judges what may be done to a file that this run did not write. Whoever
//! could open it before may still write to it later, through a descriptor or a mapping.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryMetadata};
use haul_proto::path::Name;
use haul_proto::sync::EqualityTest;
use haul_proto::wire::preserve::RightsOptions;
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::{FileType, Uid, fchown};
use rustix::process::geteuid;

use crate::fs::attributes::remove_acls;
use crate::fs::meta::{SETGID, SETUID, apply};
use crate::fs::{Dir, FileStat, MetadataParts};
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::{attributes, is_own_group, is_root, sets_capabilities};

const READ: u16 = 0o444;
const EXECUTE: u16 = 0o111;
/// Most remembered combinations of owner, group and mode.
const STORED_MAX: usize = 256;

/// Why an existing file is replaced with `--inplace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPlaceRefusal {
    /// It belongs neither to this user nor, with `-p`, to its final owner.
    OtherOwner,
    /// It has names that are not known to be names of the source's file.
    OtherNames,
    /// It would get set-id bits or capabilities, and is not this user's.
    Rights,
}

/// What the rights of existing files have led to.
#[derive(Default)]
pub struct ExistingRights {
    /// Files replaced in spite of `--inplace`, by reason.
    replaced: [AtomicU64; 3],
    /// Owner, group and mode as a file system stores them, by device and requested values.
    stored: Mutex<HashMap<(u64, u32, u32, u16), EntryMetadata>>,
}

impl InPlaceRefusal {
    const ALL: [Self; 3] = [Self::OtherOwner, Self::OtherNames, Self::Rights];

    fn why(self) -> &'static str {
        match self {
            Self::OtherOwner => "existing files of other users",
            Self::OtherNames => "existing files with other names, which keep the old contents",
            Self::Rights => "other users' files that are to have set-id bits or capabilities",
        }
    }
}

impl MetadataWriter {
    /// Why an existing file may not be updated in place; `None` if it may. `known_names` of its names are known to be
    /// names of the source's file.
    pub(crate) fn in_place_refusal(&self, entry: &Entry, there: &FileStat, known_names: u64) -> Option<InPlaceRefusal> {
        if !self.is_trusted(&entry.meta, there) {
            Some(InPlaceRefusal::OtherOwner)
        } else if there.names > known_names {
            Some(InPlaceRefusal::OtherNames)
        } else {
            let gives = !there.is_owned_by_this_user() && self.gives_rights(entry, &entry.meta, there, true);
            gives.then_some(InPlaceRefusal::Rights)
        }
    }

    /// Counts a file that is replaced in spite of `--inplace`.
    pub(crate) fn count_replaced(&self, refusal: InPlaceRefusal) {
        self.rights.replaced[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Reports how many files were replaced in spite of `--inplace`, and why.
    pub(crate) fn report_replaced(&self) {
        for refusal in InPlaceRefusal::ALL {
            let count = self.rights.replaced[refusal as usize].swap(0, Ordering::Relaxed);
            if count > 0 {
                let text = format!("replaced instead of updated in place (--inplace): {} ({count})", refusal.why());
                self.copy.reporter.send(&WorkerMessage::Warning { text });
            }
        }
    }

    /// Whether an existing file that stays may get these metadata, which are [`Self::settable`], and the attributes of
    /// `entry`. Otherwise it is to be copied anew.
    pub(crate) fn may_adjust(
        &self,
        entry: &Entry,
        meta: &EntryMetadata,
        there: &FileStat,
        has_other_attributes: bool,
    ) -> Result<(), FileError> {
        if self.preserves_owner() && meta.uid != there.meta.uid && !there.is_owned_by_this_user() {
            return Err(FileError::OfOtherUser);
        }
        // Only the contents of a file that was compared by digest are known.
        let is_compared = self.copy.request.sync.equal == EqualityTest::Digest;
        let is_own = there.is_owned_by_this_user() && there.names == 1;
        if self.gives_rights(entry, meta, there, has_other_attributes) && !(is_own && is_compared) {
            return Err(FileError::UncomparedRights);
        }
        Ok(())
    }

    /// The metadata that an existing entry in `dir` can get: it keeps its mode, owner and group where they are not
    /// preserved, or where this process, or the file system, cannot set the source's. Each file system is tried once for
    /// each owner, on a nameless file.
    pub(crate) fn settable(&self, dir: &Dir, name: &Name, meta: &EntryMetadata, there: &FileStat) -> EntryMetadata {
        let of = |meta: &EntryMetadata| (meta.uid, meta.gid, meta.mode);
        let source_mode = meta.mode;
        let mut meta = self.wanted(meta, &there.meta);
        if there.kind == FileType::RegularFile {
            meta.mode = self.executable_mode(source_mode, meta.mode);
        }
        let meta = &meta;
        if of(meta) == of(&there.meta) {
            return *meta;
        }
        let stored = self.stored(dir, meta);
        let is_kept = is_root() && meta.uid != u32::MAX && ![stored.uid, there.meta.uid].contains(&meta.uid);
        if is_kept {
            self.report_kept_owner(EntryPlace::in_directory(dir, name), there.meta.uid, meta.uid);
        }
        let may_set_group = is_root() || there.is_owned_by_this_user();
        EntryMetadata {
            uid: if is_root() && stored.uid == meta.uid { meta.uid } else { there.meta.uid },
            gid: if may_set_group && stored.gid == meta.gid { meta.gid } else { there.meta.gid },
            mode: if self.copy.request.metadata.rights.mode { stored.mode } else { meta.mode },
            ..*meta
        }
    }

    /// The mode of a file with this one, if it is to be executable as the source's is: for all who may read it, unless
    /// somebody may execute it already.
    pub(crate) fn executable_mode(&self, source: u16, there: u16) -> u16 {
        let options = &self.copy.request.metadata;
        match (source & EXECUTE != 0, there & EXECUTE != 0) {
            _ if options.rights.mode || !options.executability => there,
            (false, _) => there & !EXECUTE,
            (true, false) => there | (there & READ) >> 2,
            (true, true) => there,
        }
    }

    /// Existing metadata with the preserved ones of the source.
    fn wanted(&self, meta: &EntryMetadata, there: &EntryMetadata) -> EntryMetadata {
        let RightsOptions { mode, owner, group } = self.copy.request.metadata.rights;
        let uid = if owner { meta.uid } else { there.uid };
        let gid = if group { meta.gid } else { there.gid };
        let is_other = |is_other, bit| if is_other { bit } else { 0 };
        let foreign = is_other(uid != meta.uid, SETUID) | is_other(gid != meta.gid, SETGID);
        EntryMetadata { uid, gid, mode: if mode { meta.mode & !foreign } else { there.mode }, ..*meta }
    }

    /// Owner, group and mode of a new file in `dir` that is to have these.
    fn stored(&self, dir: &Dir, meta: &EntryMetadata) -> EntryMetadata {
        let Some(clock) = self.clock_to_test(dir) else { return storable(meta) };
        let mut known = lock(&self.rights.stored);
        if known.len() >= STORED_MAX {
            known.clear();
        }
        let try_it = || {
            let keep = MetadataParts { owner: true, group: true, mode: Some(meta.mode), times: false };
            let stored = apply(clock.file(), meta, keep).and_then(|_| FileStat::at_fd(clock.file()));
            stored.map_or_else(|_| storable(meta), |stat| stat.meta)
        };
        *known.entry((dir.identity().device, meta.uid, meta.gid, meta.mode)).or_insert_with(try_it)
    }

    /// With preserved owners, takes an existing directory from its owner if that changes. Its access control lists go first: new
    /// entries would inherit them. The source's are set when the directory is complete.
    pub(crate) fn take_directory(&self, dir: &Dir, meta: &EntryMetadata) -> io::Result<()> {
        if !self.preserves_owner() || !is_root() || self.copy.is_dry() || self.copy.creates_only || dir.is_absent() {
            return Ok(());
        }
        let fd = dir.fd()?;
        let there = FileStat::at_fd(&*fd)?;
        if [there.meta.uid, u32::MAX].contains(&meta.uid) || self.stored(dir, meta).uid != meta.uid {
            return Ok(());
        }
        // They could add another list meanwhile. A backup takes the earlier owner from the directory.
        if !there.is_owned_by_this_user() && !self.copy.request.sync.backs_up() {
            fchown(&*fd, Some(Uid::from_raw(meta.uid)), None)?;
        }
        remove_acls(&*fd)
    }

    fn preserves_owner(&self) -> bool {
        self.copy.request.metadata.rights.owner
    }

    /// Whether an existing file belongs to this user, or with `-p` to its final owner.
    pub(crate) fn is_trusted(&self, meta: &EntryMetadata, there: &FileStat) -> bool {
        there.is_owned_by_this_user() || self.preserves_owner() && there.meta.uid == meta.uid
    }

    /// Whether a new entry in `dir` has the owner of what this process makes there: this user, or another one where the
    /// file system decides (NFS with root_squash, `uid=`, sshfs). A file made there shows which.
    pub(crate) fn is_made_by_this_user(&self, dir: &Dir, stat: &FileStat) -> bool {
        let made = || FileStat::at_fd(self.clock_to_test(dir)?.file()).ok();
        stat.is_owned_by_this_user() || made().is_some_and(|made| made.meta.uid == stat.meta.uid)
    }

    /// Whether metadata and attributes give a file set-id bits or capabilities that it lacks, or another owner to them.
    fn gives_rights(&self, entry: &Entry, meta: &EntryMetadata, there: &FileStat, has_other_attributes: bool) -> bool {
        let EntryMetadata { mode, uid, gid, .. } = self.wanted(meta, &there.meta);
        let set_id = if self.copy.request.metadata.rights.mode { mode & (SETUID | SETGID) } else { 0 };
        let changes_owner = (uid, gid) != (there.meta.uid, there.meta.gid);
        let gives_bits = set_id != 0 && (changes_owner || there.meta.mode & set_id != set_id);
        let has_capability = self.keeps_attributes() && sets_capabilities() && has_capability(entry);
        gives_bits || has_capability && (changes_owner || has_other_attributes)
    }
}

/// What a new file of this process has of owner, group and mode, as far as that is known without a test.
fn storable(meta: &EntryMetadata) -> EntryMetadata {
    let is_own = |is_own: bool, bit: u16| if is_root() || is_own { 0 } else { bit };
    let without = is_own(meta.uid == geteuid().as_raw(), SETUID) | is_own(is_own_group(meta.gid), SETGID);
    let gid = if is_root() || is_own_group(meta.gid) { meta.gid } else { u32::MAX };
    EntryMetadata { mode: meta.mode & !without, gid, ..*meta }
}

/// Whether a file is to have capabilities, which grant rights like a set-id bit.
pub fn has_capability(entry: &Entry) -> bool {
    attributes(entry).is_some_and(|attributes| attributes.iter().any(|other| *other.name == *b"security.capability"))
}
