//! The test vectors in `vectors.txt` are what this crate writes, and it reads them back. The limits are those of
//! `docs/PROTOCOL.md`. So text and code cannot drift.
//!
//! A block in the document begins with "```vectors NAME"; each vector is a line with its name, followed by indented
//! lines of hexadecimal digits. Keys and sealed records are tested where they are made, in haul-engine.

use std::net::{IpAddr, Ipv4Addr};

use haul_lab::{check_vectors, documented_vector};
use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::compression::{Codec, CompressionPolicy};
use haul_proto::cpus::Cpus;
use haul_proto::delta::options::{DeltaMode, DeltaOptions};
use haul_proto::delta::rolling::{RollingSignature, SignatureFormat};
use haul_proto::encoding::Writer;
use haul_proto::entry::{
    DeviceNumber, Entry, EntryContent, EntryKind, EntryLocation, EntryMetadata, FileVersion, SpecialFile, Timestamp,
};
use haul_proto::entry_extras::{EntryExtras, ExtendedAttribute};
use haul_proto::expected_digests::ExpectedDigests;
use haul_proto::feature::Features;
use haul_proto::file_range::RangeLen;
use haul_proto::filter::definition::{FileLimits, FilterOptions};
use haul_proto::filter::{ListSyntax, PatternList};
use haul_proto::ids::{CopyId, CopyNumber, EntryId, PathId, StreamId};
use haul_proto::integrity::{FrameLen, FrameTree, frame_check};
use haul_proto::limits;
use haul_proto::mode_rules::ModeRule;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::path::Name;
use haul_proto::striping::{Striping, StripingPolicy};
use haul_proto::sync::{ChangeKind, ChangeReasons, DeleteMode, EarlierCopyUse, ItemChange, SyncCounters, SyncOptions};
use haul_proto::watch::{ChangedPart, ChangedPath, ChangedPaths};
use haul_proto::wire::address::LocalAddress;
use haul_proto::wire::checksum::{ChecksumRequest, ChecksumSource};
use haul_proto::wire::compressed_frame::CompressedPayload;
use haul_proto::wire::control_channel::{BEAT, ControlChannel, encode_header};
use haul_proto::wire::expansion::{ExpandRequest, ExpandedPatterns, PatternMatch};
use haul_proto::wire::file_session::{
    DiskUsage, FailedEntries, FileAnswer, FileFailure, FileOperation, FileSessionRequest, FoundEntry, OpenFileVersion,
    SessionRights, WatchCoverage,
};
use haul_proto::wire::frame::{DataFrame, DeltaFrame, PackFrame, PackedFile, RecordPrefix, RecordTrailer};
use haul_proto::wire::handshake::{CipherSuite, GreetingAnswer, StreamGreeting};
use haul_proto::wire::list_batch::{self, DestinationBatch, ListedKinds, SourceBatch};
use haul_proto::wire::measure::{MeasureAnswer, MeasureRequest, TargetDirectoryFigures};
use haul_proto::wire::message::{Exclusion, SourceMessage, TargetMessage, TransferNeed};
use haul_proto::wire::network_settings::{InterfaceSettings, NetworkSettings, SocketBuffers, TcpBuffers};
use haul_proto::wire::owners::{OwnerAccount, OwnerFrom, OwnerMap, OwnerOptions};
use haul_proto::wire::partials::{FoundPartial, PartialDetails, PartialExtent, PartialOutcome, PartialState};
use haul_proto::wire::preserve::{HolePolicy, MetadataOptions, PreserveOptions, RightsOptions, TimeOptions};
use haul_proto::wire::ranges::{PlannedVersion, SourceRange, TargetRange};
use haul_proto::wire::report::{ItemReport, WindowLimits, WorkerHello, WorkerMessage};
use haul_proto::wire::request::{
    ControllerMessage, SessionSettings, SocketOptions, SourceRequest, TargetOperand, TargetRequest,
};
use haul_proto::wire::route::Route;
use haul_proto::wire::samples;
use haul_proto::wire::sparse::{BLOCK, DataMap, PayloadShape, SparsePayload, decode_trailer, encode_trailer};
use haul_proto::wire::storage::{CacheUse, DirectIo, Fsync, StorageRequest};
use haul_proto::wire::write_options::{ModeOptions, PartialOptions, SkipOptions, WriteOptions};

const TEXT: &str = include_str!("../../../docs/PROTOCOL.md");
const LIMITS: &str = include_str!("../src/limits.rs");
const COPY: CopyNumber = CopyNumber(1);
const FOUR_STRIPES: Striping = Striping { count: 4, size: 1 << 20 };
const NOON: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 500_000_000 };

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn source_messages() -> Vec<(&'static str, SourceMessage)> {
    let meta = |mode| EntryMetadata { mode, uid: 1000, gid: 100, modified: NOON };
    let version = FileVersion { device: 2049, inode: 300, changed: NOON };
    let child = |text| EntryLocation::Child { parent: EntryId(0), name: name(text) };
    let other = |text, kind| Entry { place: child(text), kind, meta: meta(0o644), version: None, more: None };
    let attribute = ExtendedAttribute { name: (*b"user.a").into(), value: (*b"1").into() };
    let more = EntryExtras {
        data_bytes: Some(4096),
        names: Some(2),
        attributes: Some(vec![attribute]),
        striping: Some(FOUR_STRIPES),
        ..EntryExtras::default()
    };
    let entries = vec![
        Entry {
            place: EntryLocation::Operand(0),
            kind: EntryContent::Directory,
            meta: meta(0o755),
            version: None,
            more: None,
        },
        Entry { place: child("a"), kind: EntryContent::File { size: 3 }, meta: meta(0o644), version: None, more: None },
        Entry {
            place: child("b"),
            kind: EntryContent::File { size: 1 << 30 },
            meta: meta(0o644),
            version: Some(version),
            more: None,
        },
        Entry {
            place: child("l"),
            kind: EntryContent::Symlink { points_to: (*b"a").into() },
            meta: meta(0o777),
            version: None,
            more: None,
        },
        Entry {
            place: EntryLocation::Operand(1),
            kind: EntryContent::Stream,
            meta: meta(0o644),
            version: None,
            more: None,
        },
        other("h", EntryContent::HardLink { to: EntryId(2), size: 1 << 30 }),
        other("n", EntryContent::Node(SpecialFile::Block(DeviceNumber { major: 8, minor: 300 }))),
        other("f", EntryContent::Node(SpecialFile::Fifo)),
        Entry {
            version: Some(version),
            more: Some(Box::new(more)),
            ..other("s", EntryContent::File { size: 1 << 30 })
        },
    ];
    let excluded = |what| SourceMessage::Excluded { entry: EntryId(1), what };
    vec![
        ("Offer", SourceMessage::Offer { first: EntryId(0), entries }),
        ("DirectoryEnd", SourceMessage::DirectoryEnd { entry: EntryId(0), listing: true.into() }),
        ("FileEnd", SourceMessage::FileEnd { entry: EntryId(300), size: 1 << 30, modified: NOON, digest: [0xd1; 32] }),
        ("SourceFailed", SourceMessage::SourceFailed { entry: EntryId(300), reason: "gone".into(), vanished: false }),
        ("OffersEnd", SourceMessage::OffersEnd),
        ("Match", SourceMessage::Match { entry: EntryId(300), frames: vec![2..3] }),
        ("Mismatch", SourceMessage::Mismatch { entry: EntryId(300), frames: vec![3..5] }),
        ("ListAck", SourceMessage::ListAck { before: 300 }),
        ("Owner", SourceMessage::Owner { is_group: false, id: 1000, name: b"anna".to_vec() }),
        ("Excluded", excluded(Exclusion::Names(vec![name("a.o"), name("b.o")]))),
        ("Vanished", excluded(Exclusion::Vanished(vec![name("log")]))),
        ("Patterns", excluded(Exclusion::Patterns { file: 0, text: b"*.o\n".to_vec() })),
        ("Streams", SourceMessage::Streams { count: 64, path: PathId(1) }),
        ("SmallSegments", SourceMessage::SmallSegments { path: PathId(1) }),
        (
            "QueryMissing",
            SourceMessage::QueryMissing {
                streams: vec![StreamId(3)],
                entries: vec![(EntryId(1), 1), (EntryId(300), 2)],
            },
        ),
    ]
}

fn target_messages() -> Vec<(&'static str, TargetMessage)> {
    let needs = vec![TransferNeed::All, TransferNeed::All, TransferNeed::Nothing];
    let others = vec![TransferNeed::InOrder, TransferNeed::Refused, TransferNeed::Refused, TransferNeed::Delta];
    let format = SignatureFormat { block: 32_768, key: 0x1112_1314_1516_1718, strong_bytes: 6 };
    let sums = vec![RollingSignature { weak: 0x0102_0304, strong: 0x0506_0708_090a }];
    vec![
        ("Want", TargetMessage::Want { first: EntryId(0), needs }),
        ("Want, from 300", TargetMessage::Want { first: EntryId(300), needs: others }),
        ("Done", TargetMessage::Done { runs: vec![(EntryId(1), 1), (EntryId(300), 2)] }),
        ("TargetFailed", TargetMessage::TargetFailed { entry: EntryId(300) }),
        ("MissingRanges", TargetMessage::MissingRanges { entry: EntryId(300), frames: vec![1..2, 7..300] }),
        (
            "HaveRanges",
            TargetMessage::HaveRanges { entry: EntryId(300), first: 2, values: vec![[0xd1; 32]], compare: true },
        ),
        (
            "BlockHashes",
            TargetMessage::BlockHashes { entry: EntryId(300), first: 2, marks: vec![0, 0x0102_0304_0506_0708] },
        ),
        (
            "RollingSignatures",
            TargetMessage::RollingSignatures { entry: EntryId(300), size: 1 << 30, format, first: 7, sums },
        ),
        ("ResendPacked", TargetMessage::ResendPacked { entries: vec![EntryId(1), EntryId(300)] }),
        ("Missing", TargetMessage::Missing { entry: EntryId(300), frames: vec![0..1, 5..10] }),
        ("QueryEnd", TargetMessage::QueryEnd),
        ("Ack", TargetMessage::Ack { entry: EntryId(300), frames: 7 }),
    ]
}

#[test]
fn messages_between_the_ends() {
    let ours = source_messages().into_iter().map(|(name, message)| (name, message.encode(COPY)));
    let theirs = target_messages().into_iter().map(|(name, message)| (name, message.encode(COPY)));
    check_vectors("messages", &ours.chain(theirs).collect::<Vec<_>>());
    for (name, message) in source_messages() {
        assert_eq!(SourceMessage::decode(&documented_vector("messages", name), COPY), Ok(message));
    }
    for (name, message) in target_messages() {
        assert_eq!(TargetMessage::decode(&documented_vector("messages", name), COPY), Ok(message));
    }
}

fn settings() -> SessionSettings {
    SessionSettings {
        copy: CopyId([0xaa; 16]),
        session: CopyId([0x11; 16]),
        secret: std::array::from_fn(|i| u8::try_from(i).expect("below 32")),
        streams: 4,
        streams_max: 128,
        socket: SocketOptions { congestion: Some("bbr".into()), ..SocketOptions::default() },
        cpus: cpus(),
        ports: Some((5031, 5039)),
        ..samples::settings()
    }
}

fn cpus() -> Cpus {
    let mut cpus = Cpus::default();
    assert!([0, 1, 9].iter().all(|cpu| cpus.insert(*cpu)));
    cpus
}

fn filters() -> FilterOptions {
    let list = PatternList { text: b"*.o".to_vec(), syntax: ListSyntax::Pattern, includes: false };
    let limits = FileLimits { max_size: Some(4096), newer_s: Some(1_700_000_000), ..FileLimits::default() };
    FilterOptions { lists: vec![list], files: vec![name(".haulignore")], limits, changed: None }
}

fn rsync_filters() -> FilterOptions {
    let text = b"-s! *.o\0:n .rules\0".to_vec();
    let lists = vec![PatternList { text, syntax: ListSyntax::Rsync, includes: false }];
    FilterOptions { lists, ..FilterOptions::default() }
}

fn controller_messages() -> Vec<(&'static str, ControllerMessage)> {
    let source = SourceRequest {
        settings: settings(),
        operands: vec![b"/data/run7".to_vec()],
        listed: true,
        base: Some(b"/data".to_vec()),
        skip: SkipOptions { unreadable: true, other_file_systems: true, ..SkipOptions::default() },
        modes: ModeRule::parse_all("D2775,go-w,Fg=u", 0).expect("rules"),
        filters: filters(),
        storage: StorageRequest { direct: DirectIo::Always, cache: CacheUse::Auto, under_way: 16 },
        rate_bytes_per_s: 50 << 20,
        compression: CompressionPolicy::Auto,
        remove_files: true,
        tell_owners: true,
        ..samples::source_request()
    };
    let ruled = SourceRequest { filters: rsync_filters(), ..samples::source_request() };
    let place = list_batch::OperandDestination { below: vec![name("2026")], name: Some(name("a")) };
    let operand = TargetOperand { name: Some(name("run7")), directory: true, device: 2049, inode: 12 };
    let owner_map = OwnerMap { from: OwnerFrom::Ids(0, 99), to: OwnerAccount::Name(b"nobody".to_vec()) };
    let checksum =
        Some(ChecksumRequest { algorithm: ChecksumAlgorithm::Crc32, at_source: false, against: ChecksumSource::Lines });
    let target = TargetRequest {
        settings: SessionSettings { checksum, ..settings() },
        path: b"/archive/".to_vec(),
        operands: vec![operand],
        listed: ListedKinds::Trees,
        takes_links: true,
        source_boot: [0xbb; 16],
        origin: [0xcc; 32],
        metadata: MetadataOptions {
            rights: RightsOptions::ALL,
            executability: false,
            times: TimeOptions { directories: false, ..TimeOptions::default() },
            is_required: true,
            owners: OwnerOptions { by_name: true, users: vec![owner_map], groups: Vec::new() },
            preserve: PreserveOptions {
                holes: HolePolicy::Keep,
                hard_links: true,
                attributes: true,
                ..PreserveOptions::default()
            },
        },
        write: WriteOptions {
            overwrite: OverwritePolicy::Replace,
            modes: ModeOptions { file: Some(0o640), directory: None, less_umask: false },
            check_space: true,
            striping: StripingPolicy::Fixed(FOUR_STRIPES),
        },
        below: vec![vec![name("2026")]],
        storage: StorageRequest { direct: DirectIo::Never, cache: CacheUse::Drop, under_way: 0 },
        partial: PartialOptions {
            small_journals: true,
            journal_dir: Some(b"/var/j".to_vec()),
            ..PartialOptions::default()
        },
        fsync: Fsync::Full,
        delta: DeltaOptions { delta: DeltaMode::Auto, in_place: true, wrong_before: 1 },
        sync: SyncOptions {
            into: true,
            delete: DeleteMode::After,
            delete_max: Some(1000),
            backup_dir: b"old".to_vec(),
            backup_suffix: b"~".to_vec(),
            earlier_use: EarlierCopyUse::Copy,
            ..SyncOptions::default()
        },
        ..samples::target_request()
    };
    let range = SourceRange {
        range: RangeLen::DEFAULT.range(2).unwrap(),
        version: PlannedVersion { size: 1 << 40, inode: 300, modified: NOON, changed: NOON },
    };
    let received = TargetRequest { range: Some(TargetRange::One(range.range)), ..samples::target_request() };
    let finishing = TargetRequest { range: Some(TargetRange::Finish(RangeLen::DEFAULT)), ..samples::target_request() };
    vec![
        ("Source", ControllerMessage::Source(source)),
        ("Target", ControllerMessage::Target(target)),
        (
            "Source, of a range",
            ControllerMessage::Source(SourceRequest { range: Some(range), ..samples::source_request() }),
        ),
        ("Source, with rules of rsync", ControllerMessage::Source(ruled)),
        ("Target, of a range", ControllerMessage::Target(received)),
        ("Target, of all ranges", ControllerMessage::Target(finishing)),
        ("Listen", ControllerMessage::Listen { address: None }),
        ("Listen, at one address", ControllerMessage::Listen { address: Some(ADDRESS) }),
        ("Connect", ControllerMessage::Connect { routes: routes(), timeout_ms: 3000 }),
        ("Tunnel", ControllerMessage::Tunnel { connector: true }),
        ("Start", ControllerMessage::Start { skip: None }),
        ("Start, with a directory", ControllerMessage::Start { skip: Some((2049, 13)) }),
        ("Cancel", ControllerMessage::Cancel),
        ("Rate", ControllerMessage::Rate(25 << 20)),
        ("Pause", ControllerMessage::Pause(true)),
        ("Streams of a source", ControllerMessage::Streams(12)),
        ("Detour", ControllerMessage::Detour),
        ("Expected", ControllerMessage::Expected(expected())),
        (
            "SourceBatch",
            ControllerMessage::SourceBatch(SourceBatch { first: 300, paths: vec![b"2026/a".to_vec()], last: true }),
        ),
        ("DestinationBatch", ControllerMessage::DestinationBatch(DestinationBatch { first: 300, places: vec![place] })),
        ("Measure", ControllerMessage::Measure(measure())),
        (
            "FileSession",
            ControllerMessage::FileSession(FileSessionRequest {
                silence_ms: 13_000,
                rights: SessionRights::ChangeNames,
            }),
        ),
        ("FileOperation, Open", ControllerMessage::FileOperation(FileOperation::Open { path: b"/a".to_vec() })),
        (
            "FileOperation, Read",
            ControllerMessage::FileOperation(FileOperation::Read { file: 1, offset: 300, length: 64 << 10 }),
        ),
        ("FileOperation, Close", ControllerMessage::FileOperation(FileOperation::Close { file: 1 })),
        (
            "FileOperation, Stat",
            ControllerMessage::FileOperation(FileOperation::Stat { path: b"/a".to_vec(), follows: true }),
        ),
        (
            "FileOperation, List",
            ControllerMessage::FileOperation(FileOperation::List { path: b"/a".to_vec(), has_details: true }),
        ),
        ("FileOperation, ListOn", ControllerMessage::FileOperation(FileOperation::ListOn { listing: 2 })),
        ("FileOperation, Measure", ControllerMessage::FileOperation(FileOperation::Measure { path: b"/a".to_vec() })),
        (
            "FileOperation, MakeDirectory",
            ControllerMessage::FileOperation(FileOperation::MakeDirectory { path: b"/a".to_vec(), has_parents: true }),
        ),
        (
            "FileOperation, Remove",
            ControllerMessage::FileOperation(FileOperation::Remove { path: b"/a".to_vec(), is_recursive: true }),
        ),
        (
            "FileOperation, Watch",
            ControllerMessage::FileOperation(FileOperation::Watch { path: b"/a".to_vec(), filters: filters() }),
        ),
        ("FileOperation, NextChanges", ControllerMessage::FileOperation(FileOperation::NextChanges)),
        (
            "FileOperation, FindPartials",
            ControllerMessage::FileOperation(FileOperation::FindPartials {
                path: b"/a".to_vec(),
                journals: b"/j".to_vec(),
                removes: true,
            }),
        ),
        (
            "FileOperation, FindPartialsOn",
            ControllerMessage::FileOperation(FileOperation::FindPartialsOn { search: 2 }),
        ),
        ("Expand", ControllerMessage::Expand(expand())),
        ("Replica", ControllerMessage::Replica(samples::replica_request())),
    ]
}

fn expected() -> Vec<u8> {
    let mut lines = ExpectedDigests::new(ChecksumAlgorithm::Crc32);
    lines.add(b"run7/a", &[0x35, 0x24, 0x41, 0xc2]).expect("one line");
    lines.batches(1).flatten().copied().collect()
}

fn measure() -> MeasureRequest {
    MeasureRequest {
        path: b"/archive".to_vec(),
        cold: Vec::new(),
        compute_ms: 250,
        suite: CipherSuite::Aes256Gcm,
        silence_ms: 13_000,
    }
}

fn expand() -> ExpandRequest {
    ExpandRequest { base: Some(b"/data".to_vec()), patterns: vec![b"{a,b}*".to_vec()] }
}

fn expanded() -> ExpandedPatterns {
    ExpandedPatterns { matches: vec![PatternMatch { pattern: 0, alternative: 1, path: b"b1".to_vec() }] }
}

fn changed_paths() -> ChangedPaths {
    let changed = [(&b"a"[..], false), (b"b/c", true)];
    let paths = changed.map(|(path, has_contents)| ChangedPath { path: path.to_vec(), has_contents });
    ChangedPaths::new(paths).expect("few paths")
}

fn file_answers() -> Vec<(&'static str, WorkerMessage)> {
    let version = OpenFileVersion { size: 300, device: 2049, inode: 13, modified: NOON, changed: NOON };
    let found = FoundEntry { mode: 0o120_777, size: 300, modified: NOON, points_to: b"b".to_vec() };
    let failures = FailedEntries { count: 2, first: vec![(b"a/b".to_vec(), "busy".into())] };
    [
        ("FileAnswer, Ready", FileAnswer::Ready),
        ("FileAnswer, Opened", FileAnswer::Opened { file: 1, version }),
        ("FileAnswer, Data", FileAnswer::Data { bytes: b"abc".to_vec() }),
        ("FileAnswer, Closed", FileAnswer::Closed),
        ("FileAnswer, Failed", FileAnswer::Failed { failure: FileFailure::Changed, text: "changed".into() }),
        ("FileAnswer, Found", FileAnswer::Found(found.clone())),
        (
            "FileAnswer, Listed",
            FileAnswer::Listed { listing: 2, entries: vec![(Name::new(b"a").expect("a name"), found)], is_last: true },
        ),
        (
            "FileAnswer, Measured",
            FileAnswer::Measured(DiskUsage {
                entries: 3,
                bytes: 300,
                disk_bytes: 4096,
                repeats_links: true,
                failures: failures.clone(),
            }),
        ),
        ("FileAnswer, Made", FileAnswer::Made),
        ("FileAnswer, Removed", FileAnswer::Removed { entries: 300, failures: failures.clone() }),
        ("FileAnswer, Watching", FileAnswer::Watching(WatchCoverage { directories: 300, is_shared: true })),
        ("FileAnswer, Changed, everything", FileAnswer::Changed(ChangedPart::Everything)),
        ("FileAnswer, Changed, paths", FileAnswer::Changed(ChangedPart::Paths(changed_paths()))),
        ("FileAnswer, Partials", FileAnswer::Partials { search: 2, found: partials(), failures, is_last: true }),
    ]
    .map(|(name, answer)| (name, WorkerMessage::FileAnswer(answer)))
    .into()
}

fn partials() -> Vec<FoundPartial> {
    let extent = PartialExtent { recorded: 300, size: 4096 };
    let states = [
        PartialState::Part(extent),
        PartialState::Busy { extent: Some(extent), process: Some(7) },
        PartialState::Unrecorded,
        PartialState::Journal,
        PartialState::Elsewhere,
        PartialState::Patch { bytes: 14, size: 300 },
        PartialState::Spent,
        PartialState::Damaged,
        PartialState::Foreign { uid: 1000 },
    ];
    let outcomes = [PartialOutcome::Shown, PartialOutcome::Removed, PartialOutcome::Kept].into_iter().cycle();
    let about = |state| PartialDetails { path: b"a".to_vec(), state, disk_bytes: 8192, idle_s: 60 };
    states.into_iter().zip(outcomes).map(|(state, outcome)| FoundPartial { about: about(state), outcome }).collect()
}

fn measured() -> WorkerMessage {
    let scratch = b"/archive/.haul-probe-1".to_vec();
    let place = TargetDirectoryFigures {
        scratch,
        free_bytes: 1 << 40,
        free_files: 1 << 20,
        counts_files: true,
        ..Default::default()
    };
    let eth1 = InterfaceSettings { name: "eth1".into(), mtu: 9000, queue_packets: 1000, qdisc: "fq_codel".into() };
    WorkerMessage::Measured(Box::new(MeasureAnswer {
        hash_bytes_per_s: 3_000_000_000,
        check_bytes_per_s: 20_000_000_000,
        seal_bytes_per_s: 6_000_000_000,
        network: NetworkSettings {
            receive: SocketBuffers { default_bytes: 212_992, max_bytes: 4 << 20 },
            send: SocketBuffers { default_bytes: 212_992, max_bytes: 2 << 20 },
            optmem_max_bytes: 131_072,
            backlog_max_packets: 1000,
            tcp_receive: TcpBuffers { min_bytes: 4096, default_bytes: 131_072, max_bytes: 6 << 20 },
            tcp_send: TcpBuffers { min_bytes: 4096, default_bytes: 16_384, max_bytes: 4 << 20 },
            free_memory_bytes: 12_000_000_000,
            interfaces: vec![eth1],
        },
        congestion_controls: "cubic".into(),
        max_startups: "10:30:100".into(),
        version: "0.1.0".into(),
        clock_us: 1_700_000_000_500_000,
        place: Some(place),
    }))
}

fn routes() -> Vec<Route> {
    let bound = Route { from: Some(ADDRESS), interface: "eth1".into(), to: "10.1.2.4:5031".into(), link: 2 };
    vec![Route { link: 1, ..Route::to("[::1]:5031") }, bound]
}

fn hello() -> WorkerMessage {
    WorkerMessage::Hello(WorkerHello {
        protocol: 1,
        features: Features::ALL,
        cores: 8,
        aes: true,
        boot: [0xbb; 16],
        ssh_connection: Some("::1 40000 ::1 22".into()),
        addresses: vec![LocalAddress { address: ADDRESS, prefix: 24, interface: "eth1".into(), mbit_per_s: 10_000 }],
        rate_bytes_per_s: 0,
        windows: WindowLimits { receive_max_bytes: 6 << 20, send_max_bytes: 4 << 20 },
        requires_blake3: true,
    })
}

fn target_ready() -> WorkerMessage {
    WorkerMessage::TargetReady { boot: [0xbb; 16], device: 2049, inode: 13, new_tree: true }
}

fn item() -> WorkerMessage {
    let reasons = ChangeReasons::SIZE.and(ChangeReasons::TIME, true);
    WorkerMessage::Item(ItemReport {
        path: b"a/b".to_vec(),
        item: ItemChange { what: EntryKind::File, change: ChangeKind::Replaced(reasons) },
        size: Some(300),
        modified: Some(Timestamp { seconds: 1_600_000_000, nanoseconds: 7 }),
        first_name: None,
    })
}

fn synced() -> WorkerMessage {
    WorkerMessage::Synced(SyncCounters {
        removed: 1,
        backed_up: 0,
        linked: 300,
        adjusted: 2,
        removed_at_source: 0,
        left_at_source: 7,
    })
}

#[test]
fn the_link() {
    let header = |channel, length| encode_header(channel, length).to_vec();
    let mut vectors = vec![
        ("header, 6 bytes for Peer", header(ControlChannel::Peer, 6)),
        ("header, end of stream 3", header(ControlChannel::Stream(StreamId(3)), 0)),
        ("beat", BEAT.to_vec()),
        ("Hello", hello().encode()),
        ("TargetReady", target_ready().encode()),
        ("Measured", measured().encode()),
        ("Item", item().encode()),
        ("Synced", synced().encode()),
    ];
    vectors.extend(controller_messages().into_iter().map(|(name, message)| (name, message.encode())));
    vectors.push(("Expanded", WorkerMessage::Expanded(expanded()).encode()));
    vectors.extend(file_answers().into_iter().map(|(name, message)| (name, message.encode())));
    check_vectors("link", &vectors);
    assert_eq!(WorkerMessage::decode(&documented_vector("link", "Hello")), Ok(hello()));
    assert_eq!(WorkerMessage::decode(&documented_vector("link", "TargetReady")), Ok(target_ready()));
    assert_eq!(WorkerMessage::decode(&documented_vector("link", "Measured")), Ok(measured()));
    assert_eq!(WorkerMessage::decode(&documented_vector("link", "Item")), Ok(item()));
    assert_eq!(WorkerMessage::decode(&documented_vector("link", "Synced")), Ok(synced()));
    let documented = WorkerMessage::decode(&documented_vector("link", "Expanded"));
    assert_eq!(documented, Ok(WorkerMessage::Expanded(expanded())));
    for (name, message) in file_answers() {
        assert_eq!(WorkerMessage::decode(&documented_vector("link", name)), Ok(message));
    }
    for (name, message) in controller_messages() {
        assert!(ControllerMessage::decode(&documented_vector("link", name)) == Ok(message), "{name}");
    }
}

#[test]
fn a_replica_session() {
    let steps = samples::replica_steps().into_iter().map(|(name, step)| (name, ControllerMessage::ReplicaStep(step)));
    let steps: Vec<_> = steps.collect();
    let answer = |(name, answer)| (name, WorkerMessage::ReplicaAnswer(Box::new(answer)));
    let answers: Vec<_> = samples::replica_answers().into_iter().map(answer).collect();
    let mut vectors: Vec<_> = steps.iter().map(|(name, message)| (*name, message.encode())).collect();
    vectors.extend(answers.iter().map(|(name, message)| (*name, message.encode())));
    check_vectors("replica", &vectors);
    for (name, message) in steps {
        assert!(ControllerMessage::decode(&documented_vector("replica", name)) == Ok(message), "{name}");
    }
    for (name, message) in answers {
        assert_eq!(WorkerMessage::decode(&documented_vector("replica", name)), Ok(message), "{name}");
    }
}

fn trailers() -> Vec<(&'static str, usize, RecordTrailer)> {
    let data = DataFrame {
        copy: COPY,
        entry: EntryId(300),
        offset: 512 << 10,
        check: 0x0102_0304_0506_0708,
        value: [0xd2; 32],
    };
    let delta = DeltaFrame { copy: COPY, entry: EntryId(300), offset: 512 << 10, plain: 512 << 10, value: [0xd2; 32] };
    let packed = |entry, len, fill| PackedFile { entry: EntryId(entry), len, modified: NOON, digest: [fill; 32] };
    let files = vec![packed(1, 3, 0xd3), packed(300, 0, 0xd4)];
    vec![
        ("Finished", 0, RecordTrailer::Finished),
        ("Data", 512 << 10, RecordTrailer::Data(data)),
        ("Delta", 7, RecordTrailer::Delta(delta)),
        ("Pack", 3, RecordTrailer::Pack(PackFrame { copy: COPY, check: 0x0102_0304_0506_0708, files })),
        ("End", 0, RecordTrailer::End { records: 12 }),
    ]
}

/// The length on the wire, what it was, and the trailer that it would have had.
fn shaped_trailers() -> Vec<(&'static str, usize, PayloadShape, RecordTrailer)> {
    let plain = |name| trailers().into_iter().find(|(other, ..)| *other == name).expect("one of them");
    let compressed = |name, original, codec, wire| {
        let (_, plain, trailer) = plain(original);
        (name, wire, PayloadShape { sparse: None, compressed: Some(CompressedPayload { codec, plain }) }, trailer)
    };
    let sparse = |name, map: DataMap, wire, compressed| {
        let (_, plain, trailer) = plain("Data");
        (name, wire, PayloadShape { sparse: Some(SparsePayload { map, plain }), compressed }, trailer)
    };
    let mut map = DataMap::HOLE;
    map.add(BLOCK..3 * BLOCK);
    map.add(127 * BLOCK..128 * BLOCK);
    vec![
        compressed("Data, compressed", "Data", Codec::Zstd, 100_000),
        compressed("Pack, compressed", "Pack", Codec::Lz4, 2),
        sparse("Data, a hole", DataMap::HOLE, 0, None),
        sparse("Data, with holes", map, 3 * BLOCK, None),
        sparse(
            "Data, with holes, compressed",
            map,
            500,
            Some(CompressedPayload { codec: Codec::Lz4, plain: 3 * BLOCK }),
        ),
    ]
}

#[test]
fn records_before_they_are_sealed() {
    let mut vectors =
        vec![("prefix of a full Data record", RecordPrefix { payload: 512 << 10, trailer: 55 }.encode().to_vec())];
    for (name, _, trailer) in trailers() {
        let mut out = Writer::new();
        trailer.encode(&mut out);
        vectors.push((name, out.into_bytes()));
    }
    for (name, _, shape, trailer) in shaped_trailers() {
        let mut out = Writer::new();
        encode_trailer(&shape, &trailer, &mut out);
        vectors.push((name, out.into_bytes()));
    }
    check_vectors("trailers", &vectors);
    for (name, payload, shape, trailer) in shaped_trailers() {
        assert_eq!(decode_trailer(&documented_vector("trailers", name), payload), Ok((shape, trailer)));
    }
    for (name, payload, trailer) in trailers() {
        assert_eq!(RecordTrailer::decode(&documented_vector("trailers", name), payload), Ok(trailer));
    }
}

#[test]
fn greeting_and_answer() {
    let counted = |from: u8| std::array::from_fn(|i| from + u8::try_from(i).expect("below 32"));
    let greeting =
        StreamGreeting { session: CopyId([0x11; 16]), stream: StreamId(3), path: PathId(0), random: counted(0x20) };
    let answer = GreetingAnswer { random: counted(0x40) };
    check_vectors("handshake", &[("greeting", greeting.encode().to_vec()), ("answer", answer.encode().to_vec())]);
}

#[test]
fn a_file_of_three_frames() {
    let frame = FrameLen::new(256 << 10).expect("a length that a frame may have");
    let content: Vec<u8> = (0..=250).cycle().take(2 * frame.bytes() + 1000).collect();
    let size = content.len() as u64;
    let mut vectors = vec![("check of no bytes", frame_check(b"").to_le_bytes().to_vec())];
    let mut values = Vec::new();
    let names = ["check of frame 0", "check of frame 1", "check of frame 2"].into_iter();
    let names = names.zip(["value of frame 0", "value of frame 1", "value of frame 2"]);
    for ((index, payload), (check, value)) in (0..).zip(content.chunks(frame.bytes())).zip(names) {
        values.push((index, frame.hash(size, index, payload)));
        vectors.push((check, frame_check(payload).to_le_bytes().to_vec()));
        vectors.push((value, values.last().expect("just pushed").1.to_vec()));
    }
    // In any order.
    let mut tree = FrameTree::new(frame.frames(size));
    assert!(values.iter().rev().all(|(index, value)| tree.insert(*index, *value)));
    let digest = tree.digest().expect("all frames are there");
    assert_eq!(digest, *blake3::hash(&content).as_bytes());
    vectors.push(("digest", digest.to_vec()));
    check_vectors("integrity", &vectors);
}

/// The number in the document's table of limits: a name, and its value.
fn documented_limit(name: &str) -> u128 {
    let (_, limits) = TEXT.split_once("\n## 12. Limits\n").expect("docs/PROTOCOL.md has a section of limits");
    let opening = format!(" `{name}` ");
    let (_, rest) = limits.split_once(&opening).unwrap_or_else(|| panic!("docs/PROTOCOL.md has no limit '{name}'"));
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
    digits.parse().expect("a number")
}

macro_rules! check_limits {
    ($($name:ident)*) => {{
        $(assert_eq!(documented_limit(stringify!($name)), limits::$name as u128, stringify!($name));)*
        [$(stringify!($name)),*]
    }};
}

#[test]
fn limits_are_in_the_table() {
    let checked = check_limits!(
        FRAME_MIN FRAME_MAX TRAILER_MAX PACK_FILES_MAX PACK_FILE_PART OFFER_ENTRIES_MAX ENTRY_WINDOW OPEN_DIRECTORIES_MAX UNSETTLED_BYTES_MAX OPEN_DIRECTORIES_BYTES_MAX ATTRIBUTE_OVERHEAD FRAME_RUNS_MAX UNMERGED_RUNS_MAX HELD_VALUES_MAX RESENDS_MAX COMPARES_MAX MARKS_MAX MARKED_FRAMES_MAX SUMS_MAX ROLLING_BLOCK_MIN ROLLING_BLOCK_MAX STRONG_BYTES_MIN STRONG_BYTES_MAX ROLLING_BLOCKS_MAX SUMS_BYTES_MAX WRONG_DELTAS_MAX LOST_BASES_MAX VAIN_HASHES_PER_BYTE DELTA_STEPS_MAX LARGE_IN_FLIGHT_MAX FLOW_AHEAD SYMLINK_MAX ATTRIBUTES_MAX ATTRIBUTE_NAME_MAX ATTRIBUTES_BYTES_MAX MORE_BYTES_MAX LINKED_FILES_BYTES_MAX LINKED_FILE_BYTES LINKED_DIRECTORY_BYTES DIFFERENCES_MAX DIFFERING_ATTRIBUTES_MAX DIFFERING_RANGES_MAX TEXT_MAX PATH_MAX OPERANDS_MAX PATTERN_ALTERNATIVES_MAX PATTERN_MATCHES_MAX PATTERN_MATCHES_BYTES LISTED_BATCH_MAX LISTED_BATCH_BYTES LISTED_BATCHES_AHEAD FILTER_LISTS_MAX FILTER_FILE_MAX FILTERS_BYTES_MAX FILTER_NAMES_MAX DIRECTORY_FILTER_MAX OPEN_RULES_MAX CHANGED_PATHS_MAX LEFT_OUT_NAMES_MAX ACCOUNT_NAME_MAX OWNER_MAPS_MAX MODE_RULES_MAX OWNERS_MAX LINK_DESTS_MAX SUFFIX_MAX CHECKSUM_MAX EXPECTED_LINES_MAX EXPECTED_CHUNK_MAX PEER_MESSAGE_MAX CONTROL_MESSAGE_MAX TUNNEL_CHUNK_MAX BEAT_MS SILENCE_MS MEASURE_MS_MAX FILE_READ_MAX SESSION_FILES_MAX FILE_OPERATIONS_AHEAD LISTED_ENTRIES_MAX FAILED_ENTRIES_MAX REPLICA_BATCH_MAX REPLICA_BATCH_BYTES REPLICA_UPDATES_MAX REPLICA_GENERATIONS_MAX MACHINE_ID_MAX CONGESTION_MAX STREAMS_MAX REKEY_BYTES REKEY_RECORDS GREETING_MAX PENDING_CONNECTIONS_MAX PENDING_CLIENTS_FROM_NETWORK_MAX PENDING_STREAMS_FROM_NETWORK_MAX GREETING_DEADLINE_MS PRESSED_DEADLINE_MS ADDRESSES_MAX UNDER_WAY_MAX LINKS_MAX INTERFACE_MAX RATE_MIN CPUS_MAX SLOWEST_MAX STREAM_FIGURES_MAX RANGES_MAX
    );
    let there = LIMITS.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let last = check_limits!(FIGURE_MAX RESENDS_PER_FRAME_MAX RESENDS_PER_FILE_MAX ROUTES_MAX);
    assert_eq!(there.collect::<Vec<_>>(), [&checked[..], &last].concat());
}
