//! Policy for Requests to a served worker: applies the server's limits to a client's Request before any other code sees
//! it.
//!
//! This is an allowlist. Every field of a Request appears here, so a new field does not compile before its treatment is
//! decided. `_` marks a field that the client may choose: its decoder checks its limits, and the kernel confines the
//! worker to its directory. A client of a served pipe reaches the pipe and nothing else.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use haul_base::copy::null;
use haul_proto::delta::options::{DeltaMode, DeltaOptions};
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::sync::{DeleteMode, EqualityTest, SyncOptions};
use haul_proto::wire::handshake::CipherSuite;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::preserve::{MetadataOptions, PreserveOptions};
use haul_proto::wire::request::{
    ControllerMessage, SessionSettings, SocketOptions, SourceRequest, Symlinks, TargetRequest,
};
use haul_proto::wire::storage::{CacheUse, StorageRequest};
use haul_proto::wire::write_options::{ModeOptions, PartialOptions, WriteOptions};

use crate::fs::lookup;
use crate::worker::client_limits::{ClientLimits, ServedAccess};
use crate::worker::client_refusal::{ClientRefusal, ForbiddenAct};

/// Most bytes in one frame of each stream of a client: 128 streams with the default frame size.
const STREAMS_BYTES_MAX: usize = 64 << 20;
/// Most frames of direct I/O in flight per stream, whatever the client requests.
const UNDER_WAY_MAX: u8 = 8;
/// Longest idle timeout that a client may set: no client holds a connection for ever.
pub(super) const SILENCE_MS_MAX: u32 = 3_600_000;

/// What a client calls a served pipe.
const PIPE: &[u8] = b"-";

impl ClientLimits {
    /// Applies the limits to a client's message in place.
    ///
    /// # Errors
    /// The message exceeds the limits.
    pub fn enforce(&self, message: &mut ControllerMessage) -> Result<(), ClientRefusal> {
        match message {
            ControllerMessage::Source(request) => self.hold_source(request),
            ControllerMessage::Target(request) => self.hold_target(request),
            ControllerMessage::Rate(bytes_per_s) => {
                *bytes_per_s = self.slower(*bytes_per_s);
                Ok(())
            }
            // A source enforces the limits in its settings.
            ControllerMessage::Pause(_) | ControllerMessage::Streams(_) | ControllerMessage::Detour => Ok(()),
            ControllerMessage::Listen { address } => {
                *address = self.address.or(*address);
                Ok(())
            }
            // The worker replies that it opens no connections.
            ControllerMessage::Connect { routes: _, timeout_ms: _ } => Ok(()),
            // The worker accepts only batches that its Request announced.
            ControllerMessage::Expected(_) => Ok(()),
            ControllerMessage::SourceBatch(_) | ControllerMessage::DestinationBatch(_) => Ok(()),
            ControllerMessage::Tunnel { connector: _ } | ControllerMessage::Start { skip: _ } => Ok(()),
            ControllerMessage::Cancel => Ok(()),
            ControllerMessage::Measure(_) => Err(ClientRefusal::Measurement),
            ControllerMessage::FileSession(request) => self.hold_file_session(request),
            ControllerMessage::FileOperation(operation) => self.hold_file_operation(operation),
            ControllerMessage::Expand(request) => self.hold_expansion(request),
            ControllerMessage::Replica(_) | ControllerMessage::ReplicaStep(_) => Err(ClientRefusal::Replica),
        }
    }

    fn hold_source(&self, request: &mut SourceRequest) -> Result<(), ClientRefusal> {
        let SourceRequest {
            settings,
            operands,
            listed,
            base,
            // A base is the first part of a source argument, which is inside the directory.
            marks_bases: _,
            recursive: _,
            links,
            // A link that is an argument and not kept is refused by the confined lookup.
            judges_operands: _,
            skip: _,
            live: _,
            // All attributes of a readable file may be read; the target decides about their use.
            preserve: _,
            // Modes that another end is told.
            modes: _,
            // Names and patterns: filter files are read below a source argument, as other files are.
            filters: _,
            tell_left_out: _,
            rate_bytes_per_s,
            storage,
            compression: _,
            pipe,
            compare,
            // Digests of readable files only.
            tell_digests: _,
            remove_files,
            tell_owners,
            // Reading a part is reading. Its decoder refuses it for a pipe.
            range: _,
        } = request;
        self.limit_storage(storage);
        *rate_bytes_per_s = self.slower(*rate_bytes_per_s);
        // The accounts of this host are private.
        *tell_owners = false;
        if self.pipe.is_some() {
            self.check_pipe(true, *compare, *pipe)?;
            (*operands, *base, *listed, *pipe) = (vec![PIPE.into()], None, false, PipeKind::Standard);
            *remove_files = false;
            return self.hold_settings(settings);
        }
        let is_from_memory =
            !operands.is_empty() && operands.iter().all(|path| null::null_size(path_of(path)).is_some());
        if !self.access.reads() && !is_from_memory {
            return Err(self.forbidden(ForbiddenAct::Reading));
        }
        self.hold_settings(settings)?;
        operands.iter_mut().filter(|path| null::null_size(path_of(path)).is_none()).try_for_each(inside)?;
        base.iter_mut().try_for_each(inside)?;
        if *listed {
            return Err(ClientRefusal::FileList);
        }
        if *remove_files && self.access != ServedAccess::Both {
            let (access, act) = (ServedAccess::ReadOnly, ForbiddenAct::SourceRemoval);
            return Err(ClientRefusal::Access { access, act });
        }
        if links.follows() {
            return Err(ClientRefusal::LinkTargets);
        }
        match pipe {
            PipeKind::No | PipeKind::Growing(_) => Ok(()),
            PipeKind::Standard | PipeKind::Named => Err(no_pipe(operands.first())),
        }
    }

    fn hold_target(&self, request: &mut TargetRequest) -> Result<(), ClientRefusal> {
        let is_discarded = request.path == null::NOTHING.as_bytes() && request.compare.is_none();
        self.check_target_access(request, is_discarded)?;
        let TargetRequest {
            settings,
            path,
            operands: _,
            // Names, like those of source arguments and the entries below them.
            listed: _,
            takes_links: _,
            source_boot: _,
            origin: _,
            again: _,
            own_tree: _,
            directory: _,
            filters: _,
            write: WriteOptions { overwrite, modes, check_space: _, striping: _ },
            below: _,
            missing,
            metadata,
            verify: _,
            // `check_target_access` refuses it for a directory without read access.
            digest_existing: _,
            storage,
            partial,
            fsync: _,
            delta,
            sync,
            pipe,
            compare,
            range,
        } = request;
        self.limit_storage(storage);
        if self.pipe.is_some() {
            (*path, *pipe) = (PIPE.into(), PipeKind::Standard);
            (*metadata, *partial) = (MetadataOptions::default(), PartialOptions::NONE);
            (*delta, *sync) = (DeltaOptions::default(), SyncOptions::default());
            return self.hold_settings(settings);
        }
        self.limit_use_of_existing(delta, sync)?;
        if !missing.is_empty() && self.access != ServedAccess::Both {
            return Err(self.forbidden(ForbiddenAct::ExistingEntries));
        }
        if self.access == ServedAccess::Create {
            let act = change_of_existing(*overwrite, sync, &metadata.preserve);
            let act = act.or(range.is_some().then_some(ForbiddenAct::Ranges));
            act.map_or(Ok(()), |act| Err(self.forbidden(act)))?;
        }
        self.hold_settings(settings)?;
        if !is_discarded {
            inside(path)?;
        }
        hold_modes(modes)?;
        if compare.is_some_and(Symlinks::follows) {
            return Err(ClientRefusal::LinkTargets);
        }
        hold_metadata(metadata, compare.is_none())?;
        hold_other_directories(sync)?;
        self.hold_partial(partial)?;
        match pipe {
            PipeKind::No => Ok(()),
            PipeKind::Standard | PipeKind::Named | PipeKind::Growing(_) => Err(no_pipe(Some(path))),
        }
    }

    /// Checks what a client does with a pipe, which it reads or writes.
    fn check_pipe(&self, reads: bool, compares: bool, pipe: PipeKind) -> Result<(), ClientRefusal> {
        match pipe {
            _ if reads && !self.access.reads() => Err(ClientRefusal::WriteOnlyPipe),
            _ if !reads && self.access.reads() => Err(ClientRefusal::ReadOnlyPipe),
            _ if compares => Err(ClientRefusal::PipeComparison),
            PipeKind::Named => Ok(()),
            PipeKind::No | PipeKind::Standard | PipeKind::Growing(_) => Err(ClientRefusal::FilesOfPipe),
        }
    }

    /// Checks what a target does with the pipe or directory against the permitted access.
    fn check_target_access(&self, request: &TargetRequest, is_discarded: bool) -> Result<(), ClientRefusal> {
        if self.pipe.is_some() {
            let compares = request.compare.is_some() || request.sync.is_dry;
            return self.check_pipe(false, compares, request.pipe);
        }
        let has_digests = request.digest_existing || has_digests_of_target(&request.settings);
        match (self.access, &request.compare) {
            (ServedAccess::ReadOnly, None) if !is_discarded => Err(self.forbidden(ForbiddenAct::Writing)),
            (ServedAccess::WriteOnly | ServedAccess::Create, Some(_)) => Err(self.forbidden(ForbiddenAct::Comparing)),
            (ServedAccess::WriteOnly | ServedAccess::Create, None) if has_digests => {
                Err(self.forbidden(ForbiddenAct::Digests))
            }
            _ => Ok(()),
        }
    }

    /// Limits what a target does with partial files.
    fn hold_partial(&self, partial: &mut PartialOptions) -> Result<(), ClientRefusal> {
        // A journal is small beside its file.
        let PartialOptions { resume, small_journals: _, keep, journal_dir, foreign_dir, temp_dir, make_temp_dir: _ } =
            partial;
        // A client may not remove what it has not written.
        foreign_dir.clear();
        temp_dir.clear();
        if self.access == ServedAccess::Create {
            // An existing partial file may belong to another client.
            (*resume, *keep) = (false, false);
        }
        journal_dir.as_ref().map_or(Ok(()), |_| Err(ClientRefusal::JournalDirectory))
    }

    /// Refuses options that reveal existing files, where the access or the operator excludes that.
    fn limit_use_of_existing(&self, delta: &mut DeltaOptions, sync: &SyncOptions) -> Result<(), ClientRefusal> {
        if !self.access.reads() {
            hold_delta(delta, self.forbidden(ForbiddenAct::BaseFiles))?;
            if concerns_existing(sync) {
                return Err(self.forbidden(ForbiddenAct::ExistingEntries));
            }
        }
        if !self.deltas {
            hold_delta(delta, ClientRefusal::Deltas)?;
            if sync.detect_renames {
                return Err(ClientRefusal::RenameDetection);
            }
        }
        Ok(())
    }

    /// Bounds direct I/O, and keeps the page cache, which serves others, too.
    fn limit_storage(&self, storage: &mut StorageRequest) {
        storage.under_way = storage.under_way.min(UNDER_WAY_MAX);
        if storage.cache == CacheUse::Cold {
            storage.cache = CacheUse::Drop;
        }
    }

    /// Applies the limits to the session settings: the server decides about its host and network.
    fn hold_settings(&self, settings: &mut SessionSettings) -> Result<(), ClientRefusal> {
        let SessionSettings {
            copy: _,
            number: _,
            session: _,
            secret: _,
            suite,
            frame,
            streams: _,
            streams_max,
            socket,
            rekey_bytes: _,
            report_files: _,
            blake3: _,
            report_every_ms: _,
            cpus,
            all_paths: _,
            ports,
            silence_ms,
            // `hold_target` checks this for a directory without read access.
            checksum: _,
        } = settings;
        *cpus = haul_proto::cpus::Cpus::default();
        *ports = self.ports;
        *silence_ms = (*silence_ms).min(SILENCE_MS_MAX);
        if !self.policy.tuning {
            // At the client's end, the client's kernel decides about these settings.
            *socket = SocketOptions::default();
        }
        if frame.bytes() * usize::from(*streams_max) > STREAMS_BYTES_MAX {
            return Err(ClientRefusal::StreamMemory { most: STREAMS_BYTES_MAX / frame.bytes(), frame: *frame });
        }
        match (self.policy.encryption, suite) {
            (true, CipherSuite::AuthenticateOnly) => Err(ClientRefusal::ClearText),
            (true, CipherSuite::Aes256Gcm | CipherSuite::Aes128Gcm | CipherSuite::ChaCha20Poly1305) | (false, _) => {
                Ok(())
            }
        }
    }

    pub(super) fn forbidden(&self, act: ForbiddenAct) -> ClientRefusal {
        ClientRefusal::Access { access: self.access, act }
    }

    /// Returns the lower of two rate limits, where 0 means no limit.
    fn slower(&self, wanted: u64) -> u64 {
        match self.rate {
            Some(rate) if wanted == 0 => rate,
            Some(rate) => rate.min(wanted),
            None => wanted,
        }
    }
}

/// Only users who can start programs on this host anyway may use them. `path` is already below the directory.
fn no_pipe(path: Option<&Vec<u8>>) -> ClientRefusal {
    match path.is_some_and(|path| path == b"./-") {
        true => ClientRefusal::PipeOfDirectory,
        false => ClientRefusal::Program,
    }
}

/// Whether the target computes digests: it does so for existing files too.
fn has_digests_of_target(settings: &SessionSettings) -> bool {
    settings.checksum.as_ref().is_some_and(|checksum| !checksum.at_source)
}

/// Refuses deltas, because their hashes reveal the contents of existing files. Where haul chooses the mode, deltas are
/// off.
fn hold_delta(rules: &mut DeltaOptions, refusal: ClientRefusal) -> Result<(), ClientRefusal> {
    if rules.in_place || !matches!(rules.delta, DeltaMode::Off | DeltaMode::Auto) {
        return Err(refusal);
    }
    rules.delta = DeltaMode::Off;
    Ok(())
}

/// Whether sync options reveal existing entries or delete them.
fn concerns_existing(rules: &SyncOptions) -> bool {
    let SyncOptions {
        // The directory is created, as for a copy.
        into: _,
        equal,
        // Existing files are kept, as in any copy.
        update: _,
        append: _,
        existing_only: _,
        detect_renames,
        delete,
        delete_max: _,
        removed_before: _,
        delete_filtered: _,
        modify_window_s: _,
        replaces_trees,
        // A confined process follows no links.
        insecure_links: _,
        keep_dirlinks: _,
        delete_despite_errors: _,
        is_dry,
        tells_items,
        tells_unchanged,
        // An absent Want reveals equal links anyway.
        source_removes: _,
        // Checked like other paths.
        backup_dir: _,
        // Joined to a name, which may not become a path.
        backup_suffix: _,
        safe_backups: _,
        link_dests,
        // Without earlier copies, it is nothing.
        earlier_use: _,
    } = rules;
    *delete != DeleteMode::No
        || *detect_renames
        || *replaces_trees
        || *is_dry
        || *tells_items
        || *tells_unchanged
        || *equal == EqualityTest::Digest
        || !link_dests.is_empty()
}

/// Returns what options do with existing files: replace, move, change or hard-link them.
fn change_of_existing(
    overwrite: OverwritePolicy,
    sync: &SyncOptions,
    preserve: &PreserveOptions,
) -> Option<ForbiddenAct> {
    match overwrite {
        OverwritePolicy::Replace | OverwritePolicy::Follow => Some(ForbiddenAct::Replacement),
        OverwritePolicy::Report | OverwritePolicy::ReportEqual | OverwritePolicy::Omit => None,
    }
    .or(sync.backs_up().then_some(ForbiddenAct::Backups))
    .or((sync.equal != EqualityTest::SizeAndTime).then_some(ForbiddenAct::TimeChanges))
    .or(preserve.hard_links.then_some(ForbiddenAct::HardLinks))
}

/// Rewrites the other directories of a sync.
fn hold_other_directories(sync: &mut SyncOptions) -> Result<(), ClientRefusal> {
    let paths = sync.link_dests.iter_mut().chain([&mut sync.backup_dir]);
    paths.filter(|path| !path.is_empty()).try_for_each(inside)
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Applies the server's umask, and refuses set-id and sticky bits.
fn hold_modes(ModeOptions { file, directory, less_umask }: &mut ModeOptions) -> Result<(), ClientRefusal> {
    *less_umask = true;
    if [file, directory].into_iter().flatten().any(|mode| *mode & !0o777 != 0) {
        return Err(ClientRefusal::SpecialModes);
    }
    Ok(())
}

/// Refuses access control, extended attributes and special files, and owners and modes for a copy: its files belong to
/// the server.
fn hold_metadata(metadata: &MetadataOptions, is_copy: bool) -> Result<(), ClientRefusal> {
    let MetadataOptions { rights, executability, times: _, is_required: _, owners: _, preserve } = metadata;
    if (rights.any() || *executability) && is_copy {
        return Err(ClientRefusal::OwnersAndModes);
    }
    let PreserveOptions { holes: _, hard_links: _, attributes, acls, devices, specials, without_capabilities: _ } =
        *preserve;
    if attributes || acls {
        return Err(ClientRefusal::Attributes);
    }
    if devices || specials {
        return Err(ClientRefusal::SpecialFiles);
    }
    Ok(())
}

/// Rewrites a requested path relative to the working directory, or returns why it leads outside. The later open follows
/// no symbolic link either ([`lookup`]); the check here only supplies the reason in advance.
pub(super) fn inside(path: &mut Vec<u8>) -> Result<(), ClientRefusal> {
    let whole = beneath(path)?;
    if lookup::has_link(&whole) {
        return Err(ClientRefusal::LinkInPath(path.clone()));
    }
    replace(path, &whole);
    Ok(())
}

/// The path from the served directory.
pub(super) fn beneath(path: &[u8]) -> Result<PathBuf, ClientRefusal> {
    let mut checked = PathBuf::from(".");
    for component in Path::new(OsStr::from_bytes(path)).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => checked.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(ClientRefusal::OutsidePath(path.to_vec()));
            }
        }
    }
    Ok(checked)
}

/// Replaces a path by `whole`, the path from the served directory.
pub(super) fn replace(path: &mut Vec<u8>, whole: &Path) {
    // A trailing `/` marks a directory; a trailing `/.` means its contents.
    let ending = [&b"/."[..], b"/"].into_iter().find(|ending| path.ends_with(ending)).unwrap_or_default();
    *path = [whole.as_os_str().as_bytes(), ending].concat();
}

#[cfg(test)]
#[path = "request_policy_tests.rs"]
mod tests;
