//! For tests of all crates: plain Requests, from which a test changes what matters to it, and messages of each kind of a
//! replica session.

use super::handshake::CipherSuite;
use super::list_batch::ListedKinds;
use super::pipe::PipeKind;
use super::replica_session::{
    ActionOutcome, ReplicaAnswer, ReplicaOrigin, ReplicaPlace, ReplicaRequest, ReplicaScan, ReplicaStep,
};
use super::request::{SessionSettings, SourceRequest, Symlinks, TargetRequest};
use super::storage::{Fsync, StorageRequest, Verify};
use crate::compression::CompressionPolicy;
use crate::cpus::Cpus;
use crate::entry::{EntryMetadata, SpecialFile, Timestamp};
use crate::entry_extras::ExtendedAttribute;
use crate::filter::definition::FilterOptions;
use crate::filter::{ListSyntax, PatternList};
use crate::ids::{CopyId, CopyNumber};
use crate::integrity::FrameLen;
use crate::limits::REKEY_BYTES;
use crate::twoway::ReplicaSide;
use crate::twoway::attributes::{ActionAttributes, AttributeList};
use crate::twoway::base::Generation;
use crate::twoway::detect::ReplicaUpdate;
use crate::twoway::entry::{FileStamp, ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};
use crate::twoway::merge::MetadataRules;
use crate::twoway::plan::{ActionKind, ArchiveChange, TwowayAction};
use crate::twoway::unreadable::UnreadablePath;
use crate::wire::write_options::{PartialOptions, WriteOptions};

/// Returns the settings of a session with one stream.
pub fn settings() -> SessionSettings {
    SessionSettings {
        copy: CopyId([1; 16]),
        number: CopyNumber(1),
        session: CopyId([2; 16]),
        secret: [3; 32],
        suite: CipherSuite::Aes256Gcm,
        frame: FrameLen::DEFAULT,
        streams: 1,
        streams_max: 1,
        socket: Default::default(),
        rekey_bytes: REKEY_BYTES,
        report_files: false,
        blake3: true,
        report_every_ms: 200,
        cpus: Cpus::default(),
        all_paths: false,
        ports: None,
        silence_ms: 12_000,
        checksum: None,
    }
}

/// Returns a Request for reading nothing, and of a directory all its contents.
pub fn source_request() -> SourceRequest {
    SourceRequest {
        settings: settings(),
        operands: Vec::new(),
        listed: false,
        base: None,
        marks_bases: false,
        recursive: true,
        links: Symlinks::Keep,
        judges_operands: false,
        skip: Default::default(),
        live: Default::default(),
        preserve: Default::default(),
        modes: Vec::new(),
        filters: Default::default(),
        tell_left_out: false,
        rate_bytes_per_s: 0,
        storage: StorageRequest::default(),
        compression: CompressionPolicy::Off,
        pipe: PipeKind::No,
        compare: false,
        tell_digests: false,
        remove_files: false,
        tell_owners: false,
        range: None,
    }
}

/// Returns a Request for writing nothing, with the defaults of a copy and without fsync.
pub fn target_request() -> TargetRequest {
    TargetRequest {
        settings: settings(),
        path: Vec::new(),
        operands: Vec::new(),
        listed: ListedKinds::No,
        takes_links: false,
        source_boot: [9; 16],
        origin: [0; 32],
        again: false,
        own_tree: false,
        directory: Default::default(),
        metadata: Default::default(),
        verify: Verify::Wire,
        digest_existing: false,
        write: WriteOptions::default(),
        below: Vec::new(),
        missing: Vec::new(),
        filters: Default::default(),
        storage: StorageRequest::default(),
        partial: PartialOptions::NONE,
        fsync: Fsync::None,
        delta: Default::default(),
        sync: Default::default(),
        pipe: PipeKind::No,
        compare: None,
        range: None,
    }
}

/// Returns entries of a replica of each kind.
pub fn replica_entries() -> Vec<ReplicaEntry> {
    let modified = Timestamp { seconds: 1_700_000_000, nanoseconds: 500_000_000 };
    let basic = EntryMetadata { mode: 0o644, uid: 1000, gid: 100, modified };
    let stamp = FileStamp { inode: 300, modified, changed: modified };
    let contents = [
        (ReplicaContent::Directory, None),
        (ReplicaContent::File { size: 300, digest: None }, Some(stamp)),
        (ReplicaContent::File { size: 300, digest: Some([0xd1; 32]) }, None),
        (ReplicaContent::Symlink { points_to: (*b"b").into() }, None),
        (ReplicaContent::Special(SpecialFile::Fifo), None),
    ];
    let entry = |(content, stamp)| ReplicaEntry {
        content,
        metadata: ReplicaMetadata { basic, ..ReplicaMetadata::default() },
        stamp,
    };
    let mut entries: Vec<_> = contents.map(entry).into();
    entries[0].metadata.attributes = [0xa1; 32];
    entries
}

/// Returns a Request for a replica session.
pub fn replica_request() -> ReplicaRequest {
    let lists = vec![PatternList { text: b"*.o".to_vec(), syntax: ListSyntax::Pattern, includes: false }];
    ReplicaRequest {
        silence_ms: 13_000,
        root: b"/photos".to_vec(),
        filters: FilterOptions { lists, ..FilterOptions::default() },
        backup_dir: b"../old".to_vec(),
    }
}

/// Returns a step of each kind, by its name.
pub fn replica_steps() -> Vec<(&'static str, ReplicaStep)> {
    let [path, other] = [&b"a/b"[..], b"c"].map(|bytes| TreePath::new(bytes).expect("a path"));
    let [directory, read, hashed, link, _] = replica_entries().try_into().expect("five entries");
    let action = |kind, entry, expected| TwowayAction {
        path: path.clone(),
        side: ReplicaSide::B,
        kind,
        entry,
        expected,
        keep_as: None,
        attributes: ActionAttributes::Of(ReplicaSide::A),
    };
    let copy = ActionKind::Copy { source: read.clone() };
    let moved = ActionKind::Move { from: other.clone(), source: hashed.clone() };
    let actions = vec![
        action(ActionKind::MakeDirectory, Some(directory), None),
        TwowayAction {
            attributes: ActionAttributes::Given(attribute_list()),
            ..action(ActionKind::SetMetadata, Some(read.clone()), Some(read.clone()))
        },
        action(ActionKind::Link { to: other.clone(), source: read.clone() }, Some(read.clone()), None),
        TwowayAction { keep_as: Some(other.clone()), ..action(copy, Some(read.clone()), Some(hashed.clone())) },
        action(moved, Some(hashed.clone()), None),
        action(ActionKind::SetMetadata, Some(read.clone()), Some(hashed.clone())),
        action(ActionKind::Delete, None, Some(link)),
    ];
    let changes = vec![
        ArchiveChange { path: path.clone(), entry: Some(hashed) },
        ArchiveChange { path: other.clone(), entry: None },
    ];
    let base = Some(Generation { number: 7, agreed: [0xd2; 32] });
    let paths = vec![path.clone(), other];
    vec![
        ("Meet", ReplicaStep::Meet { other: [0x1d; 16] }),
        ("Scan", ReplicaStep::Scan { base: Some(7), rules: MetadataRules { window_ns: 300, ..MetadataRules::ALL } }),
        ("NextUpdates", ReplicaStep::NextUpdates),
        ("Digest", ReplicaStep::Digest { paths: paths.clone() }),
        ("Find", ReplicaStep::Find { paths: paths.clone() }),
        ("ReadAttributes", ReplicaStep::ReadAttributes { paths }),
        ("Stage", ReplicaStep::Stage),
        ("LookAt", ReplicaStep::LookAt { sources: vec![(path, read)] }),
        ("Perform", ReplicaStep::Perform { actions }),
        ("Record", ReplicaStep::Record { changes }),
        ("Write", ReplicaStep::Write { number: 8, base }),
    ]
}

/// Returns an answer of each kind, by its name.
pub fn replica_answers() -> Vec<(&'static str, ReplicaAnswer)> {
    let path = TreePath::new(b"a/b").expect("a path");
    let entries = replica_entries();
    let now = Timestamp { seconds: 1_700_000_000, nanoseconds: 500_000_000 };
    let generation = Generation { number: 7, agreed: [0xd2; 32] };
    let place = ReplicaPlace {
        id: [0x1d; 16],
        origin: ReplicaOrigin::Moved,
        machine: b"m1".to_vec(),
        host: "db1".into(),
        path: b"/photos".to_vec(),
        device: 2049,
        inode: 13,
        now,
        sets_owners: false,
        holds_modes: true,
        time_error_ns: 300,
        folds_case: false,
    };
    let scan = ReplicaScan { started: now, archived: 300, entries: 301, updates: 2, hashed: 1 };
    let unreadable = vec![UnreadablePath { path: path.clone(), text: "busy".into() }];
    let update = ReplicaUpdate { path, archived: None, found: Some(entries[1].clone()) };
    let outcomes = vec![
        ActionOutcome::Done { stamp: entries[1].stamp, digest: Some([0xd1; 32]) },
        ActionOutcome::Skipped,
        ActionOutcome::Failed { text: "busy".into() },
    ];
    vec![
        ("Ready", ReplicaAnswer::Ready(place)),
        ("Met", ReplicaAnswer::Met { generations: vec![generation] }),
        ("Scanned", ReplicaAnswer::Scanned(scan)),
        ("Updates", ReplicaAnswer::Updates { updates: vec![update], unreadable, is_last: true }),
        ("Digests", ReplicaAnswer::Digests(vec![Some([0xd1; 32]), None])),
        ("Found", ReplicaAnswer::Found(entries.into_iter().map(Some).chain([None]).collect())),
        ("Staged", ReplicaAnswer::Staged { path: b"/photos/.haul-twoway/incoming".to_vec(), identity: (7, 8) }),
        ("Untouched", ReplicaAnswer::Untouched(vec![true, false])),
        ("Performed", ReplicaAnswer::Performed(outcomes)),
        ("Recorded", ReplicaAnswer::Recorded),
        ("Written", ReplicaAnswer::Written(generation)),
        ("Attributes, found", ReplicaAnswer::Attributes(vec![Some(attribute_list()), None])),
        ("Failed", ReplicaAnswer::Failed { text: "busy".into() }),
    ]
}

fn attribute_list() -> AttributeList {
    let attributes = vec![ExtendedAttribute { name: (*b"user.a").into(), value: (*b"b").into() }];
    AttributeList { attributes }
}
