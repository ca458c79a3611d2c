//! The Requests to both ends, from the copy's options.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::display_path::own_name;
use haul_base::copy::location::Location;
use haul_base::copy::spec::{
    ChecksumOptions, ChecksumReference, CopyOptions, CopyRange, CopySpec, DeltaOptions, Fsync, PipeEnd, SourceRange,
    Verify,
};
use haul_proto::limits::EXPECTED_CHUNK_MAX;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::path::Name;
use haul_proto::sync::{DeleteMode, EqualityTest, SyncOptions};
use haul_proto::wire::list_batch::ListedKinds;
use haul_proto::wire::owners::OwnerOptions;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::ranges::TargetRange;
use haul_proto::wire::request::{SessionSettings, SourceRequest, TargetOperand, TargetRequest};
use haul_proto::wire::write_options::WriteOptions;

use super::attempt_result::EarlierAttempts;
use super::base::full_path;

/// What the source said of its arguments.
pub struct SourceArguments {
    /// In the order of the Request. An argument that cannot be copied keeps its number, and is never offered.
    pub operands: Vec<TargetOperand>,
    /// Directories below the target for each of them.
    pub below: Vec<Vec<Name>>,
    /// Digest over their absolute paths.
    pub origin: [u8; 32],
    /// Host and boot of the source.
    pub boot: [u8; 16],
    /// Whether one of them cannot be copied.
    pub is_missing: bool,
    /// The numbers of those whose names are removed at the target, since they do not exist.
    pub removed: Vec<u32>,
}

/// Composes the Request to the source.
pub fn source_request(copy: &CopySpec, settings: SessionSettings, rate_bytes_per_s: u64) -> SourceRequest {
    let options = &copy.options;
    let base = options.source.base.as_deref();
    SourceRequest {
        settings,
        operands: copy.sources.iter().map(|source| full_path(base, source)).collect(),
        listed: copy.list.is_some(),
        base: base.map(|base| base.as_os_str().as_bytes().to_vec()),
        marks_bases: options.source.marks_bases,
        recursive: options.source.recursive,
        links: options.source.symlinks,
        judges_operands: judges_operands(options),
        skip: options.source.skip,
        live: options.source.live,
        preserve: options.metadata.preserve,
        modes: options.source.modes.clone(),
        filters: options.source.filters.clone(),
        tell_left_out: options.compare || options.target.sync.replaces_trees,
        storage: options.storage.source,
        rate_bytes_per_s,
        compression: copy.compression(),
        pipe: pipe(options.pipes.source.as_ref()),
        compare: options.compare,
        tell_digests: options.target.sync.equal == EqualityTest::Digest,
        tell_owners: options.metadata.rights.any() && options.metadata.owners != OwnerOptions::default(),
        remove_files: options.target.sync.source_removes,
        range: match options.range {
            Some(CopyRange::One(range)) => Some(range),
            Some(CopyRange::Finish(_)) | None => None,
        },
    }
}

/// Composes the Request to the target.
pub fn target_request(
    copy: &CopySpec,
    settings: SessionSettings,
    earlier: &EarlierAttempts,
    arguments: SourceArguments,
) -> TargetRequest {
    let options = &copy.options;
    let sync = sync_options(options, arguments.is_missing);
    TargetRequest {
        settings,
        path: copy.target.path.as_os_str().as_bytes().to_vec(),
        operands: arguments.operands,
        listed: match (&copy.list, options.source.recursive) {
            (None, _) => ListedKinds::No,
            (Some(_), false) => ListedKinds::Files,
            (Some(_), true) => ListedKinds::Trees,
        },
        takes_links: judges_operands(options),
        source_boot: arguments.boot,
        origin: arguments.origin,
        again: earlier.was_under_way,
        own_tree: earlier.own_tree,
        directory: options.target.directory,
        metadata: options.metadata.clone(),
        verify: options.integrity.verify,
        digest_existing: options.integrity.digest_existing,
        filters: options.source.filters.clone(),
        write: WriteOptions { overwrite: overwrite(options, earlier), ..options.target.write },
        below: arguments.below,
        missing: arguments.removed,
        storage: options.storage.target,
        partial: options.target.partial.clone(),
        fsync: match (options.storage.fsync, options.integrity.verify) {
            // Read-back verification needs the data on disk.
            (Fsync::None, Verify::Disk) => Fsync::Data,
            (fsync, _) => fsync,
        },
        delta: match options.compare || options.range.is_some() {
            true => DeltaOptions::default(),
            // Wrong deltas count over all attempts.
            false => DeltaOptions { wrong_before: earlier.wrong_deltas, ..options.target.delta },
        },
        sync,
        pipe: pipe(options.pipes.target.as_ref()),
        compare: options.compare.then_some(options.source.symlinks),
        range: options.range.map(|range| match range {
            CopyRange::One(SourceRange { range, .. }) => TargetRange::One(range),
            CopyRange::Finish(len) => TargetRange::Finish(len),
        }),
    }
}

/// A sync keeps a named link, as rsync does; a copy follows it without -a, as cp -r and scp do.
fn judges_operands(options: &CopyOptions) -> bool {
    options.target.sync.into || options.source.judges_operands
}

/// Files of an earlier attempt of this copy are complete and not reported.
fn overwrite(options: &CopyOptions, earlier: &EarlierAttempts) -> OverwritePolicy {
    match options.target.write.overwrite {
        OverwritePolicy::ReportEqual if earlier.was_under_way => OverwritePolicy::Report,
        policy => policy,
    }
}

/// Whether a missing source prevents deletions: its files at the target would look extraneous.
pub fn keeps_extraneous(options: &SyncOptions, is_missing: bool) -> bool {
    is_missing && options.deletes() && !options.delete_despite_errors
}

fn sync_options(options: &CopyOptions, is_missing: bool) -> SyncOptions {
    let mut sync = options.target.sync.clone();
    if keeps_extraneous(&sync, is_missing) {
        sync.delete = DeleteMode::No;
    }
    sync
}

/// Lines of expected digests in pieces for messages.
pub fn expected_digests(options: &CopyOptions) -> impl Iterator<Item = Vec<u8>> {
    let lines = match &options.integrity.checksum {
        Some(ChecksumOptions { against: ChecksumReference::Lines(lines), .. }) => Some(lines),
        _ => None,
    };
    lines.into_iter().flat_map(|lines| lines.batches(EXPECTED_CHUNK_MAX / lines.record_bytes()).map(<[u8]>::to_vec))
}

fn pipe(piped: Option<&PipeEnd>) -> PipeKind {
    match piped {
        None => PipeKind::No,
        Some(PipeEnd::Standard(_)) => PipeKind::Standard,
        Some(PipeEnd::Named) => PipeKind::Named,
        Some(PipeEnd::Growing(quiet)) => PipeKind::Growing(u32::try_from(quiet.as_secs()).unwrap_or(u32::MAX)),
    }
}

/// Names the arguments that do not exist, of these `missing` paths, and returns their numbers.
pub fn name_missing(operands: &mut [TargetOperand], copy: &CopySpec, missing: &HashSet<Vec<u8>>) -> Vec<u32> {
    let base = copy.options.source.base.as_deref();
    let mut removed = Vec::new();
    for ((operand, typed), number) in operands.iter_mut().zip(&copy.sources).zip(0..) {
        let name = own_name(&typed.path).filter(|_| missing.contains(&full_path(base, typed)));
        if let Some(name) = name.and_then(|name| Name::new(name.as_bytes()).ok()) {
            operand.name = Some(name);
            removed.push(number);
        }
    }
    removed
}

/// Whether the source offers only requested names, and directories only with `-r`. Names come from the command line, so
/// a host cannot choose the names at the target.
pub fn match_request(operands: &[Option<TargetOperand>], copy: &CopySpec) -> bool {
    let is_pipe = matches!(copy.options.pipes.source, Some(PipeEnd::Standard(_) | PipeEnd::Named));
    match_typed(operands, &copy.sources, copy.options.source.recursive, is_pipe)
}

/// Whether the source's arguments match those typed. Piped data has no name.
fn match_typed(operands: &[Option<TargetOperand>], typed: &[Location], recursive: bool, is_pipe: bool) -> bool {
    let is_as_asked = |operand: &TargetOperand, typed: &Location| {
        let name = own_name(&typed.path).filter(|_| !is_pipe).map(OsStrExt::as_bytes);
        operand.name.as_ref().map(Name::as_bytes) == name && (recursive && !is_pipe || !operand.directory)
    };
    operands.len() == typed.len()
        && operands.iter().zip(typed).all(|(operand, typed)| operand.as_ref().is_none_or(|it| is_as_asked(it, typed)))
}

/// Keeps the numbers of source arguments; one that cannot be copied is never offered.
pub fn numbered(operands: Vec<Option<TargetOperand>>) -> Vec<TargetOperand> {
    let missing = || TargetOperand { name: None, directory: false, device: 0, inode: 0 };
    operands.into_iter().map(|operand| operand.unwrap_or_else(missing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(name: &str, directory: bool) -> Option<TargetOperand> {
        Some(TargetOperand { name: Name::new(name.as_bytes()).ok(), directory, device: 1, inode: 2 })
    }

    fn typed(paths: &[&str]) -> Vec<Location> {
        use haul_base::copy::location::Host;
        paths.iter().map(|path| Location { host: Host::Local, path: path.into() }).collect()
    }

    #[test]
    fn a_source_does_not_choose_names() {
        let asked = |operands: &[Option<TargetOperand>], paths: &[&str], recursive| {
            match_typed(operands, &typed(paths), recursive, false)
        };
        assert!(asked(&[operand("f", false), None], &["d/f", "gone"], false));
        assert!(asked(&[operand("d", true)], &["/x/d/"], true));
        assert!(asked(&[operand("", true)], &["d/."], true));
        assert!(!asked(&[operand(".profile", false)], &["d/f"], false), "another name");
        assert!(!asked(&[operand("", true)], &["d/f"], true), "contents where a name was typed");
        assert!(!asked(&[operand("f", true)], &["d/f"], false), "a directory that was not asked for");
        assert!(!asked(&[operand("f", false), operand("f", false)], &["d/f"], false), "one more");
        assert!(!asked(&[], &["d/f"], false), "one fewer");
        let piped = |name| match_typed(&[operand(name, false)], &typed(&["-"]), true, true);
        assert!(piped("") && !piped("-"), "what comes out of a pipe has no name");
    }
}
