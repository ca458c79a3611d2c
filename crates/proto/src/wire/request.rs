//! Messages of the controller to a worker. A worker obeys only its controller. It checks data and claims of the other
//! end against its Request.

use std::net::IpAddr;

use super::checksum::{ChecksumRequest, OptionalChecksum};
use super::expansion::ExpandRequest;
use super::file_session::{FileOperation, FileSessionRequest};
use super::handshake::CipherSuite;
use super::measure::MeasureRequest;
use super::pipe::PipeKind;
use super::replica_session::{ReplicaRequest, ReplicaStep};
use super::route::Route;
use super::storage::{Fsync, StorageRequest, Verify};
use crate::codec::{OfType, from_bytes, to_bytes, wire_enum, wire_struct};
use crate::compression::CompressionPolicy;
use crate::cpus::Cpus;
use crate::delta::options::{DeltaMode, DeltaOptions};
use crate::encoding::Decoded;
use crate::error::ProtocolError;
use crate::field_codecs::{BoundedBytes, BoundedText, DefaultIsNone, PATH, list};
use crate::filter::definition::FilterOptions;
use crate::ids::{CopyId, CopyNumber};
use crate::integrity::FrameLen;
use crate::limits::{
    ADDRESSES_MAX, CONGESTION_MAX, EXPECTED_CHUNK_MAX, MODE_RULES_MAX, NAMES_MAX, OPERANDS_MAX, REKEY_BYTES,
    STREAMS_MAX,
};
use crate::mode_rules::ModeRule;
use crate::path::Name;
use crate::sync::SyncOptions;
use crate::wire::list_batch::{DestinationBatch, ListedKinds, OptionalName, SourceBatch, names};
use crate::wire::preserve::{MetadataOptions, PreserveOptions};
use crate::wire::ranges::{SourceRange, TargetRange, Trailing};
use crate::wire::write_options::{DirectoryOptions, LiveSourceOptions, PartialOptions, SkipOptions, WriteOptions};

wire_enum! {
    /// A message from the controller to a worker.
    #[derive(Clone, PartialEq, Eq)]
    #[allow(clippy::large_enum_variant, reason = "a copy has one of each Request, and what is sent is encoded at once")]
    pub enum ControllerMessage: "message from a controller" {
        /// Work as the source.
        Source(request: SourceRequest) = 1,
        /// Work as the target.
        Target(request: TargetRequest) = 2,
        /// Accept the data connections; the reply is Listening.
        Listen {
            /// At this address only; `None`: at any.
            address: Option<IpAddr>,
        } = 3,
        /// Open the data connections; the reply is Connected or CannotConnect.
        Connect {
            /// Time limit for opening a connection, in milliseconds.
            timeout_ms: u32,
            /// The candidate paths, the best first. A path's number is its index in this list.
            routes: Vec<Route> as list(OfType, ADDRESSES_MAX, "addresses"),
        } = 4,
        /// Carry the data streams over the control channel. `connector` is the greeting end.
        Tunnel {
            /// Whether this worker sends the greeting.
            connector: bool,
        } = 5,
        /// Both ends are ready: start the transfer.
        Start {
            /// For the source: device and inode number of the target directory, excluded from the walk.
            skip: Option<(u64, u64)>,
        } = 6,
        /// Stop now, clean up and exit.
        Cancel = 7,
        /// To the source: a new rate limit in bytes per second; 0 for none.
        Rate(bytes_per_s: u64) = 8,
        /// To the source: pause (`true`) or resume (`false`).
        Pause(is_paused: bool) = 13,
        /// To the source: use this number of streams from now on, without autotuning.
        Streams(count: u16) = 14,
        /// To the source: nothing arrives, and both control channels work. Leave direct paths on which nothing is
        /// acknowledged for the one through the control channel.
        Detour = 15,
        /// To the target, before Start: lines of expected digests ([`crate::expected_digests::ExpectedDigests`]).
        Expected(lines: Vec<u8> as BoundedBytes(EXPECTED_CHUNK_MAX, "lines of digests")) = 11,
        /// To a source with listed arguments: the next batch.
        SourceBatch(batch: SourceBatch) = 9,
        /// To a target, before the source receives the same arguments: their destinations.
        DestinationBatch(batch: DestinationBatch) = 10,
        /// Measure instead of copying; the reply is Measured. It is the only Request then.
        Measure(request: MeasureRequest) = 12,
        /// Begin a file session, as neither source nor target; the reply is a FileAnswer.
        FileSession(request: FileSessionRequest) = 16,
        /// An operation of the file session; the reply is a FileAnswer.
        FileOperation(operation: FileOperation) = 17,
        /// Before a Source or FileSession request: expand patterns; the reply is Expanded.
        Expand(request: ExpandRequest) = 18,
        /// Begin a replica session, as neither source nor target; the reply is a ReplicaAnswer.
        Replica(request: ReplicaRequest) = 19,
        /// A step of the replica session; the reply is a ReplicaAnswer.
        ReplicaStep(step: ReplicaStep) = 20,
    }
}

wire_struct! {
    /// Settings common to both ends.
    #[derive(Clone, PartialEq, Eq)]
    pub struct SessionSettings {
        /// Id of the copy over all its attempts; fresh random bytes that only its workers know.
        pub copy: CopyId,
        /// Number of the copy in messages.
        pub number: CopyNumber,
        /// Id of this attempt; fresh random bytes.
        pub session: CopyId,
        /// Secret for the derivation of data keys; fresh random bytes.
        pub secret: [u8; 32],
        /// Encryption of records.
        pub suite: CipherSuite,
        /// Payload of a full frame.
        pub frame: FrameLen,
        /// Initial number of data streams: 1 to [`STREAMS_MAX`].
        pub streams: u16,
        /// Most data streams; ids are below it. It exceeds `streams` where the source chooses the number.
        pub streams_max: u16,
        /// Sockets of the data streams.
        pub socket: SocketOptions,
        /// Bytes encrypted with one key: at most [`REKEY_BYTES`].
        pub rekey_bytes: u64,
        /// Whether to report each finished file.
        pub report_files: bool,
        /// Whether the source computes the BLAKE3 of every frame and file besides the frame checks.
        pub blake3: bool,
        /// Interval of counter reports in milliseconds.
        pub report_every_ms: u32,
        /// CPUs to run on, where an end has them; empty: any.
        pub cpus: Cpus,
        /// Whether to keep using all paths instead of the best one.
        pub all_paths: bool,
        /// First and last port to accept connections on; `None`: the system chooses one.
        pub ports: Option<(u16, u16)> as DefaultIsNone(OfType),
        /// Idle timeout of the control channel in milliseconds: after it, a worker gives up its controller.
        pub silence_ms: u32,
        /// Requested digest of each file besides BLAKE3.
        pub checksum: Option<ChecksumRequest> as OptionalChecksum,
    } checked by check_settings
}

wire_struct! {
    /// Request to a source.
    #[derive(Clone, PartialEq, Eq)]
    pub struct SourceRequest {
        /// Settings common to both ends.
        pub settings: SessionSettings,
        /// Source arguments as paths in bytes.
        pub operands: Vec<Vec<u8>> as list(PATH, OPERANDS_MAX, "operands"),
        /// Whether the arguments arrive in batches while the copy runs.
        pub listed: bool,
        /// Base directory (`--dirbase`) of relative source arguments. The target recreates the directories below it,
        /// with their modes at the source. Listed arguments are below it.
        pub base: Option<Vec<u8>> as DefaultIsNone(PATH),
        /// Each source argument has a base of its own, which ends at its first `/./`.
        pub marks_bases: bool,
        /// Copy directories with their contents.
        pub recursive: bool,
        /// Treatment of symbolic links.
        pub links: Symlinks,
        /// Treat links that are arguments like those below, unless those are skipped; otherwise, they are followed.
        pub judges_operands: bool,
        /// Entries that the walk skips.
        pub skip: SkipOptions,
        /// Treatment of entries that change while they are copied.
        pub live: LiveSourceOptions,
        /// Properties to preserve.
        pub preserve: PreserveOptions,
        /// Changes of modes: entries are offered as if these were their modes.
        pub modes: Vec<ModeRule> as list(OfType, MODE_RULES_MAX, "rules of modes"),
        /// Patterns and limits of entries to exclude.
        pub filters: FilterOptions,
        /// Whether to send the target the names of excluded entries and the filter files found.
        pub tell_left_out: bool,
        /// Rate limit of all streams together, in bytes of records per second; 0 for none.
        pub rate_bytes_per_s: u64,
        /// Method of reading files.
        pub storage: StorageRequest,
        /// Permitted compression of payloads.
        pub compression: CompressionPolicy,
        /// Meaning of the only argument.
        pub pipe: PipeKind,
        /// Compare both ends without sending data.
        pub compare: bool,
        /// Send the digest of each file in its Offer.
        pub tell_digests: bool,
        /// Remove each sent file after its verification at the target.
        pub remove_files: bool,
        /// Send the names of owners and groups.
        pub tell_owners: bool,
        /// Send a range of the only file.
        pub range: Option<SourceRange> as Trailing,
    } checked by check_source
}

wire_enum! {
    /// Treatment of symbolic links below a source argument.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum Symlinks: "treatment of links" {
        /// Recreate the links.
        #[default]
        Keep = 0,
        /// Copy their targets.
        Follow = 1,
        /// Skip them.
        Ignore = 2,
        /// Recreate the links, except unsafe ones: their texts lead out of the copied tree.
        Safe = 3,
        /// Recreate the links, but copy the targets of unsafe ones.
        FollowUnsafe = 4,
        /// Recreate the links, but copy the directories that they point to.
        FollowDirectories = 5,
    }
}

impl Symlinks {
    /// Whether some links are followed, which may lead anywhere.
    pub fn follows(self) -> bool {
        match self {
            Self::Follow | Self::FollowUnsafe | Self::FollowDirectories => true,
            Self::Keep | Self::Ignore | Self::Safe => false,
        }
    }
}

wire_struct! {
    /// Request to a target: its permitted writes and their options.
    #[derive(Clone, PartialEq, Eq)]
    pub struct TargetRequest {
        /// Settings common to both ends.
        pub settings: SessionSettings,
        /// Target path in bytes.
        pub path: Vec<u8> as PATH,
        /// The possible source arguments, in order.
        pub operands: Vec<TargetOperand> as list(OfType, OPERANDS_MAX, "operands"),
        /// Source arguments that arrive in batches while the copy runs.
        pub listed: ListedKinds,
        /// Whether a source argument may be a symbolic link or a special file.
        pub takes_links: bool,
        /// Host and boot of the source. Identities of source arguments are comparable only on the same host and boot.
        pub source_boot: [u8; 16],
        /// Id of the source and its arguments over all runs.
        pub origin: [u8; 32],
        /// Whether an earlier attempt of this copy broke. Its worker may need a while to notice, and holds its files
        /// until then.
        pub again: bool,
        /// Whether a directory at the path is an earlier attempt's copy of the only argument.
        pub own_tree: bool,
        /// The target directory.
        pub directory: DirectoryOptions,
        /// Metadata to preserve.
        pub metadata: MetadataOptions,
        /// Verification beyond the transfer.
        pub verify: Verify,
        /// Read existing files to report their digests.
        pub digest_existing: bool,
        /// Rules for existing and new entries.
        pub write: WriteOptions,
        /// For each source argument, the directories to create below the target; then the target has to be a directory.
        /// Empty: arguments go where cp(1) would put them.
        pub below: Vec<Vec<Name>> as list(names(NAMES_MAX), OPERANDS_MAX, "operands"),
        /// Source arguments, by their numbers, that do not exist: entries of their names are removed.
        pub missing: Vec<u32> as list(OfType, OPERANDS_MAX, "operands"),
        /// The source's filters: extraneous entries that match them are left alone.
        pub filters: FilterOptions,
        /// Method of writing files.
        pub storage: StorageRequest,
        /// Partial files.
        pub partial: PartialOptions,
        /// Durability required before a file counts as copied.
        pub fsync: Fsync,
        /// Use of base files.
        pub delta: DeltaOptions,
        /// Sync options.
        pub sync: SyncOptions,
        /// Meaning of the path.
        pub pipe: PipeKind,
        /// Compare without writing, with a source that treats symbolic links in this way.
        pub compare: Option<Symlinks>,
        /// Receive a range of a file, or complete files from their ranges.
        pub range: Option<TargetRange> as Trailing,
    } checked by check_target
}

wire_struct! {
    /// A source argument as sent to the target.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TargetOperand {
        /// Name at the target inside a directory; `None` for a directory's contents (`.`, `/`).
        pub name: Option<Name> as OptionalName,
        /// Whether the argument is a directory.
        pub directory: bool,
        /// Device number at the source.
        pub device: u64,
        /// Inode number at the source.
        pub inode: u64,
    }
}

impl ControllerMessage {
    /// Encodes the message for the control channel.
    pub fn encode(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        from_bytes(bytes)
    }
}

fn check_settings(settings: &SessionSettings) -> Decoded<()> {
    if !(1..=settings.streams_max).contains(&settings.streams) || settings.streams_max > STREAMS_MAX {
        return Err(ProtocolError::OverLimit("streams"));
    }
    if settings.ports.is_some_and(|(first, last)| first == 0 || first > last) {
        return Err(ProtocolError::Invalid("a range of ports"));
    }
    if !(1..=REKEY_BYTES).contains(&settings.rekey_bytes) {
        return Err(ProtocolError::OverLimit("bytes under one key"));
    }
    Ok(())
}

/// A range is part of a file, so nothing may take it for the file.
fn check_source(request: &SourceRequest) -> Decoded<()> {
    let SourceRequest { range, pipe, compare, tell_digests, remove_files, settings, .. } = request;
    let takes_files = *pipe != PipeKind::No || *compare || *tell_digests || *remove_files;
    if range.is_some() && (takes_files || settings.checksum.is_some()) {
        return Err(ProtocolError::Invalid("a range with options for whole files"));
    }
    Ok(())
}

fn check_target(request: &TargetRequest) -> Decoded<()> {
    let TargetRequest { range, pipe, compare, delta, sync, settings, .. } = request;
    let has_base = delta.in_place || delta.delta != DeltaMode::Off || sync.detect_renames;
    let takes_files = *pipe != PipeKind::No || compare.is_some() || sync.is_dry || sync.source_removes;
    if range.is_some() && (has_base || takes_files || settings.checksum.is_some()) {
        return Err(ProtocolError::Invalid("a range with options for whole files"));
    }
    if request.verify != Verify::Wire && !request.settings.blake3 {
        return Err(ProtocolError::Invalid("a verification without BLAKE3"));
    }
    Ok(())
}

wire_struct! {
    /// Sockets of the data streams.
    #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct SocketOptions {
        /// Congestion control by the kernel's name; `None`: chosen by path.
        pub congestion: Option<String> as DefaultIsNone(BoundedText(CONGESTION_MAX, "a name of a congestion control")),
        /// Buffer size in bytes; `None` leaves it to the kernel's autotuning.
        pub window_bytes: Option<u32> as DefaultIsNone(OfType),
        /// Set the largest buffer size that the kernel permits, even where its autotuning could exceed it.
        pub window_fixed: bool,
        /// Traffic class of packets (RFC 2474; IPv4's type of service).
        pub traffic_class: u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::ChecksumAlgorithm;
    use crate::wire::checksum::ChecksumSource;
    use crate::wire::file_session::SessionRights;
    use crate::wire::list_batch::OperandDestination;
    use crate::wire::preserve::RightsOptions;
    use crate::wire::samples;

    fn settings() -> SessionSettings {
        SessionSettings {
            streams: 4,
            streams_max: 256,
            socket: SocketOptions {
                congestion: Some("bbr".into()),
                window_fixed: true,
                traffic_class: 0xb8,
                ..SocketOptions::default()
            },
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

    fn messages() -> Vec<ControllerMessage> {
        let operand = TargetOperand { name: Name::new(b"run7").ok(), directory: true, device: 1, inode: u64::MAX };
        let contents = TargetOperand { name: None, ..operand.clone() };
        let place = OperandDestination { below: operand.name.iter().cloned().collect(), name: None };
        let from = Some(IpAddr::from([0xfd; 16]));
        let bound = Route { from, interface: "eth0".into(), to: "10.0.0.2:9".into(), link: 2 };
        vec![
            ControllerMessage::Source(SourceRequest {
                settings: settings(),
                operands: vec![b"/a".to_vec(), b"b\xff".to_vec()],
                listed: true,
                base: Some(b"/data".to_vec()),
                marks_bases: true,
                links: Symlinks::Ignore,
                skip: SkipOptions { unreadable: true, other_file_systems: true, ..SkipOptions::default() },
                live: LiveSourceOptions { refuse_growing: true, ..LiveSourceOptions::default() },
                filters: FilterOptions { files: operand.name.iter().cloned().collect(), ..FilterOptions::default() },
                tell_left_out: true,
                rate_bytes_per_s: u64::MAX,
                compression: CompressionPolicy::Auto,
                pipe: PipeKind::Named,
                compare: true,
                tell_digests: true,
                tell_owners: true,
                ..samples::source_request()
            }),
            ControllerMessage::Target(TargetRequest {
                settings: settings(),
                path: b"/archive/".to_vec(),
                operands: vec![operand.clone(), contents],
                listed: ListedKinds::Trees,
                takes_links: true,
                source_boot: [5; 16],
                origin: [6; 32],
                again: true,
                own_tree: true,
                directory: DirectoryOptions { must_exist: true, ..DirectoryOptions::default() },
                metadata: MetadataOptions { rights: RightsOptions::ALL, ..MetadataOptions::default() },
                verify: Verify::Memory,
                below: vec![vec![], operand.name.iter().cloned().collect()],
                missing: vec![1],
                partial: PartialOptions { journal_dir: Some(b"/j".to_vec()), ..PartialOptions::default() },
                fsync: Fsync::Data,
                delta: DeltaOptions { delta: DeltaMode::Rolling, in_place: true, wrong_before: 1 },
                sync: SyncOptions { into: true, ..SyncOptions::default() },
                pipe: PipeKind::Standard,
                compare: Some(Symlinks::Follow),
                ..samples::target_request()
            }),
            ControllerMessage::Listen { address: None },
            ControllerMessage::Listen { address: Some(IpAddr::from([10, 0, 0, 1])) },
            ControllerMessage::Connect { routes: vec![Route::to("[::1]:5031"), bound], timeout_ms: 3000 },
            ControllerMessage::Tunnel { connector: true },
            ControllerMessage::Start { skip: None },
            ControllerMessage::Start { skip: Some((1, u64::MAX)) },
            ControllerMessage::Cancel,
            ControllerMessage::Rate(1 << 20),
            ControllerMessage::Pause(true),
            ControllerMessage::Streams(12),
            ControllerMessage::Detour,
            ControllerMessage::FileSession(FileSessionRequest {
                silence_ms: 12_000,
                rights: SessionRights::RemovePartials,
            }),
            ControllerMessage::FileOperation(FileOperation::Open { path: b"a\xff".to_vec() }),
            ControllerMessage::FileOperation(FileOperation::Read { file: 7, offset: 1 << 40, length: 9 }),
            ControllerMessage::FileOperation(FileOperation::Close { file: 7 }),
            ControllerMessage::FileOperation(FileOperation::Stat { path: b"a".to_vec(), follows: true }),
            ControllerMessage::FileOperation(FileOperation::List { path: b"a".to_vec(), has_details: true }),
            ControllerMessage::FileOperation(FileOperation::ListOn { listing: 7 }),
            ControllerMessage::FileOperation(FileOperation::Measure { path: b"a".to_vec() }),
            ControllerMessage::FileOperation(FileOperation::MakeDirectory { path: b"a".to_vec(), has_parents: true }),
            ControllerMessage::FileOperation(FileOperation::Remove { path: b"a".to_vec(), is_recursive: true }),
            ControllerMessage::FileOperation(FileOperation::Watch { path: b"a".to_vec(), filters: Default::default() }),
            ControllerMessage::FileOperation(FileOperation::NextChanges),
            ControllerMessage::Expand(ExpandRequest { base: Some(b"/d".to_vec()), patterns: vec![b"*\xff".to_vec()] }),
            ControllerMessage::Expected(vec![9; 40]),
            ControllerMessage::SourceBatch(SourceBatch { first: 3, paths: vec![b"a/b".to_vec(), vec![]], last: true }),
            ControllerMessage::DestinationBatch(DestinationBatch { first: 3, places: vec![place] }),
            ControllerMessage::Replica(samples::replica_request()),
        ]
        .into_iter()
        .chain(samples::replica_steps().into_iter().map(|(_, step)| ControllerMessage::ReplicaStep(step)))
        .collect()
    }

    #[test]
    fn messages_round_trip_and_short_ones_are_faults() {
        for message in messages() {
            let bytes = message.encode();
            assert!(ControllerMessage::decode(&bytes) == Ok(message));
            for cut in 0..bytes.len() {
                assert!(ControllerMessage::decode(&bytes[..cut]).is_err());
            }
        }
    }

    #[test]
    fn settings_respect_their_limits() {
        let resent = |settings: SessionSettings| from_bytes::<SessionSettings>(&to_bytes(&settings));
        let good = (4, 4, 1);
        let with = |(streams, streams_max, rekey_bytes)| {
            resent(SessionSettings { streams, streams_max, rekey_bytes, ..settings() })
        };
        assert!(with(good).is_ok());
        for bad in [(0, 4, 1), (257, 257, 1), (5, 4, 1), (1, 257, 1), (4, 4, 0), (4, 4, REKEY_BYTES + 1)] {
            assert!(with(bad).is_err(), "{bad:?}");
        }
        for (ports, is_good) in [((1, 1), true), ((0, 9), false), ((9, 8), false)] {
            assert_eq!(resent(SessionSettings { ports: Some(ports), ..settings() }).is_ok(), is_good, "{ports:?}");
        }
    }
}
