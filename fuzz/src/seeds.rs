//! What the fuzzer starts from: valid encodings of everything, and short sessions.

use std::net::IpAddr;

use haul_engine::codec::PayloadCompressor;
use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::compression::{Codec, CompressionMethod, CompressionPolicy};
use haul_proto::delta::options::{DeltaCounters, DeltaMode, DeltaOptions};
use haul_proto::delta::patch::{PatchHeader, append, append_hole};
use haul_proto::delta::rolling::{RollingSignature, SignatureFormat};
use haul_proto::encoding::Writer;
use haul_proto::entry::{
    DeviceNumber, Entry, EntryContent, EntryKind, EntryLocation, EntryMetadata, FileVersion, SpecialFile, Timestamp,
};
use haul_proto::entry_extras::{EntryExtras, ExtendedAttribute};
use haul_proto::feature::Features;
use haul_proto::file_range::{FileRange, RangeLen};
use haul_proto::filter::definition::{FileLimits, FilterOptions};
use haul_proto::filter::{ListSyntax, PatternList};
use haul_proto::ids::{CopyId, EntryId, PathId, StreamId};
use haul_proto::integrity::FrameLen;
use haul_proto::journal::{HEADER_BYTES, JournalHeader, JournalRecord, encode_slot};
use haul_proto::mode_rules::ModeRule;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::path::Name;
use haul_proto::striping::{Striping, StripingPolicy};
use haul_proto::sync::{ChangeKind, ChangeReasons, DeleteMode, ItemChange, SyncCounters, SyncOptions};
use haul_proto::twoway::archive::{ARCHIVE_ENDS_BYTES, ArchiveHeader, ArchiveWriter};
use haul_proto::twoway::entry::{FileStamp, PathEntry, ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};
use haul_proto::watch::{ChangedPart, ChangedPath, ChangedPaths};
use haul_proto::wire::address::LocalAddress;
use haul_proto::wire::checksum::{ChecksumRequest, ChecksumSource};
use haul_proto::wire::compressed_frame::CompressedPayload;
use haul_proto::wire::compressed_message::CompressedMessage;
use haul_proto::wire::control_channel::{ControlChannel, encode_header};
use haul_proto::wire::counters::{Counters, FinalReport, PathFigures, ReadBackBytes};
use haul_proto::wire::difference::{AttributeEnd, Difference};
use haul_proto::wire::expansion::{ExpandRequest, ExpandedPatterns, PatternMatch};
use haul_proto::wire::file_session::{
    FileAnswer, FileFailure, FileOperation, FileSessionRequest, OpenFileVersion, SessionRights,
};
use haul_proto::wire::frame::{DataFrame, DeltaFrame, PackFrame, PackedFile, RecordPrefix, RecordTrailer};
use haul_proto::wire::handshake::{CipherSuite, GreetingAnswer, StreamGreeting};
use haul_proto::wire::list_batch::{self, DestinationBatch, ListedKinds, SourceBatch};
use haul_proto::wire::measure::{MeasureAnswer, MeasureRequest, TargetDirectoryFigures};
use haul_proto::wire::message::{Exclusion, SourceMessage, TargetMessage, TransferNeed};
use haul_proto::wire::network_settings::{InterfaceSettings, NetworkSettings};
use haul_proto::wire::owners::{OwnerAccount, OwnerFrom, OwnerMap, OwnerOptions};
use haul_proto::wire::preserve::{HolePolicy, MetadataOptions, PreserveOptions, RightsOptions, TimeOptions};
use haul_proto::wire::ranges::{PlannedVersion, SourceRange, TargetRange};
use haul_proto::wire::report::{
    FileReport, ItemReport, ResumeReport, SkipReport, SlowFile, WindowLimits, WorkerHello, WorkerMessage,
};
use haul_proto::wire::request::{
    ControllerMessage, SessionSettings, SocketOptions, SourceRequest, Symlinks, TargetOperand, TargetRequest,
};
use haul_proto::wire::resource_metrics::{ResourceMetrics, StreamFigures};
use haul_proto::wire::route::Route;
use haul_proto::wire::samples;
use haul_proto::wire::sandbox::{Confinement, SandboxReport};
use haul_proto::wire::serve::{ClientProof, TAG_LEN};
use haul_proto::wire::source_activity::{SourceActivity, StreamPath};
use haul_proto::wire::sparse::{BLOCK, DataMap, PayloadShape, SparsePayload, encode_trailer};
use haul_proto::wire::storage::{Fsync, Verify};
use haul_proto::wire::write_options::{ModeOptions, PartialOptions, SkipOptions, WriteOptions};

use crate::wire::{CHECK_BYTES, COPY};

const STRIPING: Striping = Striping { count: 4, size: 1 << 20 };

/// Seeds of the target of this name; none for a name that there is not.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "source_message" => {
            let packed = CompressedMessage { plain: 700, bytes: &[0x28, 0xb5, 0x2f, 0xfd] }.encode(COPY);
            source_messages().iter().map(|message| message.encode(COPY)).chain([packed]).collect()
        }
        "target_message" => target_messages().iter().map(|message| message.encode(COPY)).collect(),
        "controller_message" => {
            let request = ControllerMessage::Replica(samples::replica_request());
            let steps = samples::replica_steps().into_iter().map(|(_, step)| ControllerMessage::ReplicaStep(step));
            let messages = controller_messages().into_iter().chain([request]).chain(steps);
            messages.map(|message| message.encode()).collect()
        }
        "worker_message" => {
            let answers = samples::replica_answers().into_iter();
            let answers = answers.map(|(_, answer)| WorkerMessage::ReplicaAnswer(Box::new(answer)));
            worker_messages().into_iter().chain(answers).map(|message| message.encode()).collect()
        }
        "trailer" => trailers().iter().flat_map(|(payload, trailer)| records(*payload, trailer)).collect(),
        "compressed_payload" => compressed_payloads(),
        "handshake" => vec![handshake()],
        "archive" => archives(),
        "journal" => journals(),
        "link_header" => link_headers(),
        "serve" => {
            let proofs = [ClientProof::Secret([1; TAG_LEN]), ClientProof::Key { key: [2; 32], signature: [3; 64] }];
            let proofs = proofs.map(|proof| [&[0][..], &proof.encode()].concat());
            proofs.into_iter().chain([b"\x01incoming", b"\x01../up..."].map(Vec::from)).collect()
        }
        "name" => {
            [&b"a"[..], b"..", b"a/b", b"caf\xc3\xa9\n\xff\\", b"\xe2\x80\xaegpj", &[b'x'; 256]].map(Vec::from).into()
        }
        "frame_tree" => vec![
            vec![0],
            vec![1, 0, 7],
            vec![5, 4, 1, 3, 2, 2, 3, 1, 4, 0, 5, 0, 5],
            vec![8, 7, 1, 0, 2, 6, 3, 1, 4, 9, 5],
            vec![255, 255, 255, 255, 255, 255, 255, 255, 63, 254, 1, 255, 0, 0, 0, 0, 0, 0, 0, 32, 1],
        ],
        "instructions" => vec![vec![1, 5, 0, 6, b'a', b'b', b'c', 25, 80], vec![0, 3, 1], vec![0, 2, b'x']],
        "patch" => {
            let header = PatchHeader { inode: 7, size: 1 << 30, modified: Timestamp::default(), end: 200, applied: 0 };
            let (mut patch, mut hole) = (header.encode(), header.encode());
            append(&mut patch, 4096, &[7; 92]);
            append_hole(&mut hole, 4096, 4096);
            vec![patch, hole]
        }
        "source_session" => source_sessions(),
        "target_session" => target_sessions(),
        _ => Vec::new(),
    }
}

fn source_messages() -> Vec<SourceMessage> {
    let meta = EntryMetadata {
        mode: 0o4755,
        uid: 1000,
        gid: u32::MAX,
        modified: Timestamp { seconds: -1, nanoseconds: 999_999_999 },
    };
    let child = |name: &[u8]| EntryLocation::Child { parent: EntryId(300), name: Name::new(name).expect("a name") };
    let other = |kind| Entry { place: child(b"other"), kind, meta, version: None, more: None };
    let entries = vec![
        Entry { place: EntryLocation::Operand(2), kind: EntryContent::Directory, meta, version: None, more: None },
        Entry {
            place: child(b"file\xff\n"),
            kind: EntryContent::File { size: 1 << 40 },
            meta,
            version: Some(FileVersion::default()),
            more: Some(Box::new(EntryExtras {
                data_bytes: Some(7),
                names: Some(3),
                attributes: Some(vec![ExtendedAttribute { name: (*b"user.a").into(), value: (*b"\0").into() }]),
                digest: Some([9; 32]),
                parents: vec![meta; 2],
                striping: Some(STRIPING),
            })),
        },
        other(EntryContent::HardLink { to: EntryId(5), size: 9 }),
        other(EntryContent::Node(SpecialFile::Character(DeviceNumber { major: 1, minor: u32::MAX }))),
        other(EntryContent::Node(SpecialFile::Socket)),
        Entry { place: EntryLocation::Operand(3), kind: EntryContent::Stream, meta, version: None, more: None },
        Entry {
            place: child(b"link"),
            kind: EntryContent::Symlink { points_to: (*b"../x").into() },
            meta,
            version: None,
            more: None,
        },
    ];
    let excluded = |what| SourceMessage::Excluded { entry: EntryId(0), what };
    vec![
        SourceMessage::Offer { first: EntryId(1 << 33), entries },
        SourceMessage::DirectoryEnd { entry: EntryId(5), listing: false.into() },
        SourceMessage::FileEnd { entry: EntryId(6), size: 1 << 30, modified: meta.modified, digest: [7; 32] },
        SourceMessage::SourceFailed { entry: EntryId(7), reason: "gone".into(), vanished: false },
        SourceMessage::OffersEnd,
        SourceMessage::Match { entry: EntryId(6), frames: vec![0..3] },
        SourceMessage::Mismatch { entry: EntryId(6), frames: vec![3..4, 7..1 << 33] },
        SourceMessage::Streams { count: 64, path: PathId(1) },
        SourceMessage::SmallSegments { path: PathId(1) },
        SourceMessage::QueryMissing { streams: vec![StreamId(3)], entries: vec![(EntryId(6), 2), (EntryId(9), 1)] },
        SourceMessage::ListAck { before: 512 },
        SourceMessage::Owner { is_group: true, id: 100, name: b"users".to_vec() },
        excluded(Exclusion::Names(Name::new(b"x.o").into_iter().collect())),
        excluded(Exclusion::Vanished(Name::new(b"log").into_iter().collect())),
        excluded(Exclusion::Patterns { file: 0, text: b"*.o\n!a.o\n".to_vec() }),
    ]
}

fn target_messages() -> Vec<TargetMessage> {
    vec![
        TargetMessage::Want {
            first: EntryId(0),
            needs: vec![TransferNeed::All, TransferNeed::Compare, TransferNeed::InOrder, TransferNeed::Refused],
        },
        TargetMessage::Want { first: EntryId(1 << 40), needs: vec![TransferNeed::Nothing; 512] },
        TargetMessage::Want { first: EntryId(7), needs: vec![TransferNeed::Same, TransferNeed::All] },
        TargetMessage::Done { runs: vec![(EntryId(0), 300), (EntryId(400), 1)] },
        TargetMessage::TargetFailed { entry: EntryId(3) },
        TargetMessage::MissingRanges { entry: EntryId(3), frames: vec![2..3, 9..1 << 40] },
        TargetMessage::HaveRanges { entry: EntryId(3), first: 1 << 20, values: vec![[7; 32]; 3], compare: true },
        TargetMessage::ResendPacked { entries: vec![EntryId(4), EntryId(500)] },
        TargetMessage::Missing { entry: EntryId(3), frames: vec![0..1, 4..1 << 33] },
        TargetMessage::BlockHashes { entry: EntryId(3), first: 1 << 20, marks: vec![0, 7] },
        TargetMessage::RollingSignatures {
            entry: EntryId(3),
            size: 1 << 30,
            format: SignatureFormat { block: 65_536, key: 1 << 63, strong_bytes: 6 },
            first: 9,
            sums: vec![RollingSignature { weak: 1, strong: 2 }],
        },
        TargetMessage::QueryEnd,
        TargetMessage::Ack { entry: EntryId(3), frames: 1 << 33 },
    ]
}

fn settings() -> SessionSettings {
    SessionSettings {
        streams: 4,
        streams_max: 128,
        socket: SocketOptions {
            congestion: Some("bbr".into()),
            window_fixed: true,
            traffic_class: 8,
            ..SocketOptions::default()
        },
        rekey_bytes: 1 << 30,
        report_files: true,
        all_paths: true,
        ports: Some((5031, 5039)),
        checksum: Some(ChecksumRequest {
            algorithm: ChecksumAlgorithm::Crc32,
            at_source: true,
            against: ChecksumSource::Value(vec![1; 4]),
        }),
        ..samples::settings()
    }
}

fn operand() -> TargetOperand {
    TargetOperand { name: Name::new(b"run7").ok(), directory: true, device: 1, inode: 2 }
}

fn listed_places() -> Vec<list_batch::OperandDestination> {
    let name = |text: &str| Name::new(text.as_bytes()).ok();
    let place = |below: &[&str], at| list_batch::OperandDestination {
        below: below.iter().filter_map(|text| name(text)).collect(),
        name: name(at),
    };
    vec![place(&["a", "b"], "c"), place(&[], "")]
}

fn filters() -> FilterOptions {
    let list = |text: &[u8], syntax| PatternList { text: text.into(), syntax, includes: syntax == ListSyntax::Pattern };
    let lists = vec![list(b"*.[ch]", ListSyntax::Pattern), list(b"# all\n*\n!**/a\\ /\n", ListSyntax::File)];
    let limits = FileLimits { min_size: Some(1), older_s: Some(-1), ..FileLimits::default() };
    FilterOptions { lists, files: Name::new(b".f").into_iter().collect(), limits, changed: Some(changed_paths()) }
}

fn rsync_filters() -> FilterOptions {
    let text = b"-s! *.o\0+rp /a/***\0:ne .rules\0- **/[!x]\\?\0".to_vec();
    let lists = vec![PatternList { text, syntax: ListSyntax::Rsync, includes: false }];
    FilterOptions { lists, ..FilterOptions::default() }
}

fn rules() -> WriteOptions {
    let modes = ModeOptions { file: Some(0o640), directory: None, less_umask: true };
    let striping = StripingPolicy::Fixed(STRIPING);
    WriteOptions { overwrite: OverwritePolicy::Replace, modes, check_space: true, striping }
}

fn replaced() -> ItemChange {
    ItemChange {
        what: EntryKind::File,
        change: ChangeKind::Replaced(ChangeReasons::SIZE.and(ChangeReasons::TIME, true)),
    }
}

fn owners() -> OwnerOptions {
    let users = vec![OwnerMap { from: OwnerFrom::Ids(0, 99), to: OwnerAccount::Name(b"nobody".to_vec()) }];
    let groups = vec![OwnerMap { from: OwnerFrom::Nameless, to: OwnerAccount::Id(100) }];
    OwnerOptions { by_name: true, users, groups }
}

fn sync_rules() -> SyncOptions {
    let (delete, link_dests) = (DeleteMode::After, vec![b"../1".to_vec()]);
    let backup_dir = b"old".to_vec();
    SyncOptions { into: true, delete, delete_max: Some(9), backup_dir, link_dests, ..SyncOptions::default() }
}

fn controller_messages() -> Vec<ControllerMessage> {
    let range = FileRange::new(2 * RangeLen::MIN.get(), RangeLen::MIN).unwrap();
    let (modified, changed) = (Timestamp { seconds: 1, nanoseconds: 2 }, Timestamp { seconds: -3, nanoseconds: 4 });
    let version = PlannedVersion { size: 1 << 40, inode: 12, modified, changed };
    vec![
        ControllerMessage::Source(SourceRequest {
            settings: settings(),
            operands: vec![b"/a".to_vec(), b"b\xff".to_vec()],
            listed: true,
            base: Some(b"/data".to_vec()),
            links: Symlinks::Follow,
            skip: SkipOptions {
                unreadable: true,
                empty_directories: true,
                other_file_systems: true,
                missing: true,
                contents: true,
                device_contents: true,
            },
            preserve: PreserveOptions { holes: HolePolicy::Make, hard_links: true, ..PreserveOptions::default() },
            modes: ModeRule::parse_all("D2775,u+rwX,go-w,Fg=u,g-o", 0o022).unwrap_or_default(),
            filters: filters(),
            tell_left_out: true,
            rate_bytes_per_s: 1 << 20,
            compression: CompressionPolicy::Always(CompressionMethod::Zstd(19)),
            compare: true,
            tell_digests: true,
            remove_files: true,
            tell_owners: true,
            ..samples::source_request()
        }),
        ControllerMessage::Target(TargetRequest {
            settings: settings(),
            path: b"/archive/".to_vec(),
            operands: vec![operand(), TargetOperand { name: None, ..operand() }],
            listed: ListedKinds::Files,
            source_boot: [5; 16],
            origin: [6; 32],
            metadata: MetadataOptions {
                rights: RightsOptions { mode: true, ..RightsOptions::default() },
                executability: true,
                times: TimeOptions { files: false, ..TimeOptions::default() },
                is_required: true,
                owners: owners(),
                preserve: PreserveOptions { attributes: true, acls: true, devices: true, ..PreserveOptions::default() },
            },
            verify: Verify::Disk,
            filters: filters(),
            write: rules(),
            below: vec![Name::new(b"a").into_iter().collect(), Vec::new()],
            partial: PartialOptions { small_journals: true, journal_dir: Some(b"/j".to_vec()), ..Default::default() },
            fsync: Fsync::Data,
            delta: DeltaOptions { delta: DeltaMode::Rolling, in_place: true, wrong_before: 1 },
            sync: sync_rules(),
            compare: Some(Symlinks::Ignore),
            ..samples::target_request()
        }),
        ControllerMessage::Source(SourceRequest {
            range: Some(SourceRange { range, version }),
            ..samples::source_request()
        }),
        ControllerMessage::Source(SourceRequest { filters: rsync_filters(), ..samples::source_request() }),
        ControllerMessage::Target(TargetRequest { range: Some(TargetRange::One(range)), ..samples::target_request() }),
        ControllerMessage::Target(TargetRequest {
            range: Some(TargetRange::Finish(RangeLen::MIN)),
            ..samples::target_request()
        }),
        ControllerMessage::SourceBatch(SourceBatch {
            first: 512,
            paths: vec![b"a/b".to_vec(), b"\xff".to_vec()],
            last: true,
        }),
        ControllerMessage::DestinationBatch(DestinationBatch { first: 512, places: listed_places() }),
        ControllerMessage::Listen { address: None },
        ControllerMessage::Listen { address: Some(IpAddr::from([0xfd; 16])) },
        ControllerMessage::Connect {
            routes: vec![
                Route::to("[::1]:5031"),
                Route {
                    from: Some(IpAddr::from([10, 0, 0, 2])),
                    interface: "eth0".into(),
                    link: 2,
                    ..Route::to("10.0.0.1:1")
                },
            ],
            timeout_ms: 3000,
        },
        ControllerMessage::Tunnel { connector: true },
        ControllerMessage::Start { skip: None },
        ControllerMessage::Start { skip: Some((1, 2)) },
        ControllerMessage::Cancel,
        ControllerMessage::Rate(1 << 30),
        ControllerMessage::Pause(true),
        ControllerMessage::Detour,
        ControllerMessage::Streams(12),
        ControllerMessage::Expected(vec![9; 60]),
        ControllerMessage::FileSession(FileSessionRequest { silence_ms: 13_000, rights: SessionRights::Read }),
        ControllerMessage::FileOperation(FileOperation::Open { path: b"/data/a".to_vec() }),
        ControllerMessage::FileOperation(FileOperation::Read { file: 1, offset: 1 << 40, length: 4096 }),
        ControllerMessage::FileOperation(FileOperation::Close { file: 1 }),
        ControllerMessage::FileOperation(FileOperation::List { path: b"/data".to_vec(), has_details: true }),
        ControllerMessage::FileOperation(FileOperation::Remove { path: b"/data/a".to_vec(), is_recursive: true }),
        ControllerMessage::FileOperation(FileOperation::Watch {
            path: b"/data".to_vec(),
            filters: FilterOptions::default(),
        }),
        ControllerMessage::FileOperation(FileOperation::NextChanges),
        ControllerMessage::FileOperation(FileOperation::FindPartials {
            path: b"/data".to_vec(),
            journals: Vec::new(),
            removes: true,
        }),
        ControllerMessage::Expand(ExpandRequest {
            base: Some(b"/data".to_vec()),
            patterns: vec![b"{a,{b,c}}/[!x]*?\\*".to_vec(), b"*".to_vec()],
        }),
        ControllerMessage::Measure(MeasureRequest {
            path: b"/archive".to_vec(),
            cold: b"/data".to_vec(),
            compute_ms: 250,
            suite: CipherSuite::Aes256Gcm,
            silence_ms: 13_000,
        }),
    ]
}

fn work() -> SourceActivity {
    let way = |stream, path| StreamPath { stream, path, in_use: path == 0 };
    let path = |last| (format!("10.0.{last}.1:40000"), format!("10.0.{last}.2:5031"));
    SourceActivity { files_in_progress: 300, paths: vec![path(1), path(2)], streams: vec![way(0, 0), way(1, 1)] }
}

fn worker_messages() -> Vec<WorkerMessage> {
    let counters = Counters { files_found: 1, bytes_found: 1 << 40, walk_complete: true, ..Counters::default() };
    let text = || "no space left".to_owned();
    let version_time = Timestamp { seconds: 1_600_000_000, nanoseconds: 7 };
    vec![
        WorkerMessage::Hello(WorkerHello {
            protocol: 1,
            features: Features::ALL,
            cores: 2,
            aes: true,
            boot: [1; 16],
            ssh_connection: Some("::1 40000 ::1 22".into()),
            addresses: vec![
                LocalAddress {
                    address: IpAddr::from([10, 0, 0, 2]),
                    prefix: 24,
                    interface: "eth0".into(),
                    mbit_per_s: 10_000,
                },
                LocalAddress { address: IpAddr::from([0xfd; 16]), prefix: 128, interface: "ib0".into(), mbit_per_s: 0 },
            ],
            rate_bytes_per_s: 50 << 20,
            windows: WindowLimits { receive_max_bytes: 6 << 20, send_max_bytes: 4 << 20 },
            requires_blake3: true,
        }),
        WorkerMessage::SourceReady { operands: vec![None, Some(operand())], origin: [2; 32] },
        WorkerMessage::TargetReady { boot: [1; 16], device: 1, inode: 2, new_tree: false },
        WorkerMessage::Refused { usage: true, text: text() },
        WorkerMessage::Listening { port: 5031 },
        WorkerMessage::Connected { from: text(), to: text(), streams: 8 },
        WorkerMessage::Paths { in_use: vec![(text(), text()), (text(), text())], because: text() },
        WorkerMessage::CannotConnect { text: text() },
        WorkerMessage::Counters(Box::new(counters)),
        WorkerMessage::Load(Box::new(load())),
        WorkerMessage::Streams(vec![StreamFigures { stream: 1, wall_us: 1 << 40, ..StreamFigures::default() }; 2]),
        WorkerMessage::FileDone(FileReport {
            path: b"a\xff".to_vec(),
            size: 1 << 40,
            copied: true,
            digest: Some([4; 32]),
        }),
        WorkerMessage::FileFailed { path: b"a".to_vec(), text: text() },
        WorkerMessage::Resumed(ResumeReport {
            path: b"a".to_vec(),
            size: 1 << 40,
            held: 1 << 30,
            damaged: 3,
            compared: true,
        }),
        WorkerMessage::Skipped(SkipReport { path: b"a".to_vec(), reason: text() }),
        WorkerMessage::Checksum { path: b"a".to_vec(), digest: vec![7; 64] },
        WorkerMessage::Synced(SyncCounters { removed: 300, ..SyncCounters::default() }),
        WorkerMessage::Item(ItemReport {
            path: b"a/b".to_vec(),
            item: replaced(),
            size: Some(300),
            modified: Some(Timestamp { seconds: 1_600_000_000, nanoseconds: 7 }),
            first_name: Some(b"a/c".to_vec()),
        }),
        WorkerMessage::Delta(DeltaCounters { files: 1, bytes: 1 << 40, ..DeltaCounters::default() }),
        WorkerMessage::Work(Box::new(work())),
        WorkerMessage::Slowest(vec![SlowFile { path: b"a".to_vec(), size: 7, took_us: 1 << 40 }]),
        WorkerMessage::Differs { path: b"a".to_vec(), differences: differences() },
        WorkerMessage::ListAck { before: 512 },
        WorkerMessage::FileAnswer(FileAnswer::Ready),
        WorkerMessage::FileAnswer(FileAnswer::Opened {
            file: 1,
            version: OpenFileVersion {
                size: 1 << 40,
                device: 1,
                inode: 2,
                modified: version_time,
                changed: version_time,
            },
        }),
        WorkerMessage::FileAnswer(FileAnswer::Data { bytes: vec![7; 40] }),
        WorkerMessage::FileAnswer(FileAnswer::Closed),
        WorkerMessage::FileAnswer(FileAnswer::Changed(ChangedPart::Paths(changed_paths()))),
        WorkerMessage::FileAnswer(FileAnswer::Failed { failure: FileFailure::Gone, text: "gone".into() }),
        WorkerMessage::Expanded(ExpandedPatterns {
            matches: vec![PatternMatch { pattern: 0, alternative: 1, path: b"b/y1*".to_vec() }],
        }),
        WorkerMessage::Measured(Box::new(MeasureAnswer {
            hash_bytes_per_s: 1 << 31,
            max_startups: "10:30:100".into(),
            network: NetworkSettings {
                free_memory_bytes: 1 << 33,
                interfaces: vec![InterfaceSettings { name: "eth0".into(), qdisc: "fq".into(), ..Default::default() }],
                ..NetworkSettings::default()
            },
            place: Some(TargetDirectoryFigures {
                scratch: b"/a".to_vec(),
                free_bytes: 1 << 40,
                ..TargetDirectoryFigures::default()
            }),
            ..MeasureAnswer::default()
        })),
        WorkerMessage::Finished(Box::new(FinalReport {
            counters,
            cpu_us: 5,
            system_us: 2,
            peak_bytes: 6,
            direct_bytes: 7,
            cloned_bytes: 8,
            durable: true,
            read_back: ReadBackBytes { disk_bytes: 9, cache_bytes: 10, memory_bytes: 11 },
            path: PathFigures::default(),
            compression: Some(CompressionMethod::Lz4),
        })),
        WorkerMessage::Sandboxed(SandboxReport { confinement: Confinement::Partial, reason: text() }),
        WorkerMessage::Fatal { fault: true, text: text() },
    ]
}

fn load() -> ResourceMetrics {
    let mut load = ResourceMetrics { elapsed_us: 1 << 40, ..ResourceMetrics::default() };
    load.stages[0].wall_us = u64::MAX;
    load.sockets.looks = 9;
    load.present.cores = 2;
    load
}

fn differences() -> Vec<Difference> {
    vec![
        Difference::Missing(EntryKind::Symlink),
        Difference::Extra(EntryKind::Special),
        Difference::Kind { source: EntryKind::Directory, target: EntryKind::File },
        Difference::Size { source: 1 << 40, target: 0 },
        Difference::Link { source: b"a".to_vec(), target: b"\xff".to_vec() },
        Difference::Mode { source: 0o644, target: 0o4755 },
        Difference::Owner { source: (0, 0), target: (1000, 100) },
        Difference::Content { ranges: vec![0..512 << 10, 5 << 20..6 << 20], bytes: 9 << 20 },
        Difference::Attributes { names: vec![(AttributeEnd::Both, b"user.a".as_slice().into())], count: 40 },
        Difference::Name { at_source: false, of: b"tree/a".to_vec() },
        Difference::Node {
            source: SpecialFile::Character(DeviceNumber { major: 1, minor: 3 }),
            target: SpecialFile::Fifo,
        },
    ]
}

fn trailers() -> Vec<(usize, RecordTrailer)> {
    let file = |entry, len| PackedFile { entry: EntryId(entry), len, modified: Timestamp::default(), digest: [3; 32] };
    let data = DataFrame { copy: COPY, entry: EntryId(1 << 40), offset: 7 << 20, check: u64::MAX, value: [9; 32] };
    vec![
        (0, RecordTrailer::Finished),
        (512 << 10, RecordTrailer::Data(data)),
        (
            900,
            RecordTrailer::Delta(DeltaFrame {
                copy: COPY,
                entry: EntryId(3),
                offset: 1 << 19,
                plain: 1000,
                value: [7; 32],
            }),
        ),
        (1000, RecordTrailer::Pack(PackFrame { copy: COPY, check: 5, files: vec![file(7, 0), file(900, 1000)] })),
        (0, RecordTrailer::End { records: 12 }),
    ]
}

/// A record as it is, and where it has a payload, as if that had been compressed by half, had a hole, or was one.
fn records(payload: usize, trailer: &RecordTrailer) -> Vec<Vec<u8>> {
    let compressed = |codec| Some(CompressedPayload { codec, plain: payload });
    let codecs = [Codec::Lz4, Codec::Zstd]
        .map(|codec| (payload / 2, PayloadShape { sparse: None, compressed: compressed(codec) }));
    let record = |(payload, shape): (usize, PayloadShape)| {
        let mut out = Writer::new();
        encode_trailer(&shape, trailer, &mut out);
        let trailer = out.into_bytes();
        [RecordPrefix { payload, trailer: trailer.len() }.encode().to_vec(), trailer].concat()
    };
    let mut map = DataMap::HOLE;
    map.add(BLOCK..payload.max(BLOCK));
    let sparse = |map, compressed| PayloadShape { sparse: Some(SparsePayload { map, plain: payload }), compressed };
    let data = payload.saturating_sub(BLOCK);
    let half = Some(CompressedPayload { codec: Codec::Lz4, plain: data });
    let holes = [(0, sparse(DataMap::HOLE, None)), (data, sparse(map, None)), (data / 2, sparse(map, half))];
    let shaped = codecs.into_iter().chain(holes).filter(|_| payload > 0);
    [(payload, PayloadShape::default())].into_iter().chain(shaped).map(record).collect()
}

/// An archive, and its block alone.
fn archives() -> Vec<Vec<u8>> {
    let metadata = |attributes| ReplicaMetadata { attributes, ..ReplicaMetadata::default() };
    let stamp = FileStamp { inode: 12, ..FileStamp::default() };
    let file = |digest, stamp| (ReplicaContent::File { size: 3, digest }, metadata([4; 32]), stamp);
    let link = ReplicaContent::Symlink { points_to: b"../x"[..].into() };
    let entries = [
        ("run7", (ReplicaContent::Directory, metadata([0; 32]), None)),
        ("run7/a", file(Some([3; 32]), Some(stamp))),
        ("run7/a.log", file(None, None)),
        ("run7/b", (link, metadata([0; 32]), None)),
        ("run7/c", (ReplicaContent::Special(SpecialFile::Fifo), metadata([0; 32]), None)),
    ];
    let mut whole = Vec::new();
    let mut writer = ArchiveWriter::new(&ArchiveHeader { pair: [2; 32], generation: 7 }, &mut whole);
    for (path, (content, metadata, stamp)) in entries {
        let path = TreePath::new(path.as_bytes()).expect("a path");
        writer.add(&PathEntry { path, entry: ReplicaEntry { content, metadata, stamp } }, &mut whole);
    }
    writer.finish(&mut whole);
    let [start, end] = ARCHIVE_ENDS_BYTES;
    vec![whole[start + 4..whole.len() - end].to_vec(), whole]
}

/// Of a file of one frame and of a file of many, with a slot each.
fn journals() -> Vec<Vec<u8>> {
    let modified = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };
    let journal = |(name, size): (&[u8], u64)| {
        let name = Name::new(name).expect("a name");
        let version = FileVersion { device: 2049, inode: 12, changed: modified };
        let header = JournalHeader {
            name,
            size,
            modified,
            version,
            frame: FrameLen::DEFAULT,
            range: RangeLen::DEFAULT.range(1),
        }
        .encode();
        let slot = encode_slot(7, &JournalRecord { check: size, value: (size > 1).then_some([3; 32]) });
        [&header[..HEADER_BYTES - CHECK_BYTES], &slot].concat()
    };
    [(&b"run7.db"[..], 1), (&[b'x'; 255], 1 << 40)].map(journal).into()
}

/// Text under each codec, behind its right length and a wrong one.
fn compressed_payloads() -> Vec<Vec<u8>> {
    let plain: Vec<u8> = (0..60).flat_map(|i| format!("{i} the quick brown fox {}\n", i * i).into_bytes()).collect();
    let mut seeds = Vec::new();
    for method in [CompressionMethod::Lz4, CompressionMethod::Zstd(1), CompressionMethod::Zstd(19)] {
        let mut packed = vec![0; PayloadCompressor::room(plain.len())];
        let len = PayloadCompressor::default().pack(method, &plain, &mut packed).expect("text shrinks");
        for length in [plain.len(), plain.len() + 1] {
            let [a, b, c, ..] = length.to_le_bytes();
            seeds.push([&[method.codec().number(), a, b, c][..], &packed[..len]].concat());
        }
    }
    seeds
}

fn handshake() -> Vec<u8> {
    let greeting = StreamGreeting { session: CopyId([1; 16]), stream: StreamId(7), path: PathId(1), random: [2; 32] };
    [&greeting.encode()[..], &GreetingAnswer { random: [4; 32] }.encode(), &[CipherSuite::ChaCha20Poly1305.number()]]
        .concat()
}

fn link_headers() -> Vec<Vec<u8>> {
    [
        ControlChannel::Controller,
        ControlChannel::Peer,
        ControlChannel::Stream(StreamId(0)),
        ControlChannel::Stream(StreamId(255)),
    ]
    .map(|channel| encode_header(channel, 1000).to_vec())
    .into()
}

/// An offer, the target's answer, work, and the end.
fn source_sessions() -> Vec<Vec<u8>> {
    let poll = [5, 5, 5];
    let needs = |first: u8, needs: &[u8]| [&[11, first, 0, needs.len().to_le_bytes()[0]], needs].concat();
    vec![
        [
            &[0, 1, 9, 2, 3, 3, 4, 10][..],
            &poll,
            &needs(0, &[0, 0, 0, 1]),
            &[6, 7, 6, 7, 8, 2, 0],
            &[11, 0, 1, 1, 2, 0, 1],
        ]
        .concat(),
        [&[2, 1][..], &poll, &needs(0, &[2]), &[6, 1, 11, 0, 3, 0, 6, 1, 7, 0, 11, 0, 2]].concat(),
        [&[1, 5, 1, 6][..], &poll, &needs(0, &[0, 0]), &[6, 11, 0, 4, 1, 6, 11, 0, 1, 2, 0, 0]].concat(),
        [&[0, 0, 1, 5][..], &poll, &needs(0, &[3, 3, 3]), &[4, 4, 10, 5, 5, 5]].concat(),
        [&[1, 5][..], &poll, &[9, 9, 16, 1, 0, 0, 0, 0, 1, 1, 1], &[6]].concat(),
        // Of a large file some frames are there and proven, some are to be compared, one is lacking; a stream is lost.
        [
            &[2, 4][..],
            &poll,
            &needs(0, &[3]),
            &[
                11, 0, 4, 0, 2, 1, 11, 0, 4, 2, 2, 2, 11, 0, 3, 4, 1, 6, 12, 0, 1, 5, 11, 0, 5, 0, 5, 11, 0, 6, 6, 6,
                6, 5, 5,
            ],
        ]
        .concat(),
        // Small and large files are with streams that are lost: the target says what has not come.
        [
            &[1, 5, 2, 3][..],
            &poll,
            &needs(0, &[0, 0]),
            &[6, 6, 12, 1, 9, 5, 5, 11, 1, 5, 0, 4, 11, 0, 7, 0, 11, 0, 6, 6, 6, 12, 0, 9, 5, 6, 6, 7, 1, 5],
        ]
        .concat(),
        // Of a copy that only compares.
        [&[128, 1][..], &poll, &needs(0, &[4]), &[11, 0, 4, 0, 2, 2, 6, 1, 0, 5, 5, 5, 11, 0, 1, 1, 0, 0]].concat(),
    ]
}

/// Offers with answers, frames, ends, and what goes wrong with them.
fn target_sessions() -> Vec<Vec<u8>> {
    // A directory, a small file and one of two frames in it, a link.
    let offer = [0, 0, 8, 0, 0, 3, 1, 7, 1, 2, 1];
    let needed = [0, 0, 0, 0];
    let frames = [4, 2, 0, 1, 1, 7, 0, 4, 2, 1, 1, 1, 7, 0];
    let ends = [0, 5, 2, 0, 4, 0, 0, 7];
    let settle = [6, 1, 1, 1, 8, 1, 8, 1, 8, 1, 11, 11, 11];
    vec![
        [&offer[..], &needed, &frames, &ends, &settle].concat(),
        [&offer[..], &[3, 0, 0, 0], &ends].concat(),
        // A part of the large file is there: some of it is compared, some proven, some lacking.
        [
            &offer[..],
            &[0, 0, 128, 0, 12, 2, 0, 1, 1, 9, 0, 12, 2, 1, 1, 0, 0, 7, 2, 1, 0, 8, 2, 0, 1, 11, 11, 11, 11],
            &[12, 2, 1, 1, 1, 7, 1],
            &ends,
            &settle,
        ]
        .concat(),
        // The small file is whole, gets lost, comes again and gets lost again; frames come and are left for later.
        [&offer[..], &needed, &settle[..5], &[13, 6, 1, 1, 1, 13], &frames[..5], &[14], &frames, &ends, &settle]
            .concat(),
        // A file changes and is offered anew, in the place of the first.
        [&offer[..], &needed, &frames[..7], &[0, 0, 2, 7, 202, 0, 0, 0, 2, 3, 201, 0], &ends, &settle].concat(),
        [&offer[..], &[0, 1, 1, 0], &frames, &[0, 6, 1, 0, 6, 2], &ends].concat(),
        [&offer[..], &needed, &[4, 2, 0, 1, 0, 6, 2, 1, 1, 0, 10, 2, 11, 11, 11], &settle].concat(),
        [&[3, 6, 5, 1, 0, 0, 0][..], &offer].concat(),
        // A file of two frames that is only compared: they are told of, one is the same, and one is not.
        vec![0, 0, 2, 7, 0, 129, 12, 0, 0, 2, 1, 1, 1, 11, 11, 0, 9, 0, 0, 0, 0, 0, 9, 0, 1, 0, 1, 0, 5, 0, 8, 1, 11],
    ]
}

fn changed_paths() -> ChangedPaths {
    let changed = [(&b"a"[..], false), (b"b/c", true)];
    let paths = changed.map(|(path, has_contents)| ChangedPath { path: path.to_vec(), has_contents });
    ChangedPaths::new(paths).expect("few paths")
}
