//! Messages of the controller to a worker. A worker obeys only its controller. It checks data and claims of the other
//! end against its Request.

use crate::wire::names::decode_optional_name;
use crate::wire::names::encode_optional_name;
use std::net::IpAddr;

use super::address;
use super::checksum::ChecksumRequest;
use super::handshake::CipherSuite;
use super::measure::MeasureRequest;
use super::owners::OwnerOptions;
use super::pipe::PipeKind;
use super::route::{self, Route};
use super::storage::{Fsync, StorageRequest, Verify};
use crate::compression::CompressionPolicy;
use crate::cpus::Cpus;
use crate::delta::options::DeltaOptions;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::filter::definition::FilterOptions;
use crate::ids::{JobId, JobNumber};
use crate::integrity::FrameLen;
use crate::limits::{CONGESTION_MAX, EXPECTED_PIECE_MAX, OPERANDS_MAX, PATH_MAX, REKEY_BYTES, STREAMS_MAX};
use crate::path::Name;
use crate::sync::SyncOptions;
use crate::wire::list_batch::{DestinationBatch, ListedKinds, SourceBatch};
use crate::wire::preserve::PreserveOptions;
use crate::wire::write_options::{SkipOptions, WriteOptions};

/// A message from the controller to a worker.
#[derive(Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a job has one of each Request, and what is sent is encoded at once")]
pub enum ControllerMessage {
    /// Work as the source.
    Source(SourceRequest),
    /// Work as the target.
    Target(TargetRequest),
    /// Accept the data connections; the reply is Listening.
    Listen {
        /// At this address only; `None`: at any.
        address: Option<IpAddr>,
    },
    /// Open the data connections; the reply is Connected or CannotConnect.
    Connect {
        /// The candidate paths, the best first. A path's number is its index in this list.
        routes: Vec<Route>,
        /// Time limit for opening a connection, in milliseconds.
        timeout_ms: u32,
    },
    /// Carry the data streams over the control channel. `connector` is the greeting end.
    Tunnel {
        /// Whether this worker sends the greeting.
        connector: bool,
    },
    /// Both ends are ready: start the transfer.
    Start {
        /// For the source: device and inode number of the target directory, excluded from the walk.
        skip: Option<(u64, u64)>,
    },
    /// Stop now, clean up and exit.
    Cancel,
    /// To the source: a new rate limit in bytes per second; 0 for none.
    Rate(u64),
    /// To the source: pause (`true`) or resume (`false`).
    Pause(bool),
    /// To the source: use this number of streams from now on, without autotuning.
    Streams(u16),
    /// To the target, before Start: lines of expected digests ([`crate::expected_digests::ExpectedDigests`]).
    Expected(Vec<u8>),
    /// To a source with listed arguments: the next batch.
    SourceBatch(SourceBatch),
    /// To a target, before the source receives the same arguments: their destinations.
    DestinationBatch(DestinationBatch),
    /// Measure instead of copying; the reply is Measured. It is the only Request then.
    Measure(MeasureRequest),
}

/// Settings common to both ends.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// Id of the job over all its attempts; fresh random bytes that only its workers know.
    pub job: JobId,
    /// Number of the job in messages.
    pub number: JobNumber,
    /// Id of this attempt; fresh random bytes.
    pub session: JobId,
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
    /// Congestion control of the data streams by the kernel's name; empty: chosen by path.
    pub congestion: String,
    /// Socket buffer size in bytes; 0 leaves it to the kernel.
    pub window_bytes: u32,
    /// Whether to set the largest buffer size that the kernel permits, even where its autotuning could exceed it.
    pub window_fixed: bool,
    /// Traffic class of the data streams' packets (RFC 2474; IPv4's type of service).
    pub traffic_class: u8,
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
    pub ports: Option<(u16, u16)>,
    /// Idle timeout of the control channel in milliseconds: after it, a worker gives up its controller.
    pub silence_ms: u32,
    /// Requested digest of each file besides BLAKE3.
    pub checksum: Option<ChecksumRequest>,
}

/// Request to a source.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceRequest {
    /// Settings common to both ends.
    pub settings: SessionSettings,
    /// Source arguments as paths in bytes.
    pub operands: Vec<Vec<u8>>,
    /// Whether the arguments arrive in batches while the job runs.
    pub listed: bool,
    /// Base directory (`-d`) of relative source arguments. The target recreates the directories below it, with their
    /// modes at the source. Listed arguments are below it.
    pub base: Option<Vec<u8>>,
    /// Copy directories with their contents.
    pub recursive: bool,
    /// Treatment of symbolic links.
    pub links: SymlinkMode,
    /// Entries that the walk skips.
    pub leave_out: SkipOptions,
    /// Properties to preserve.
    pub kept: PreserveOptions,
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
}

/// Treatment of symbolic links below a source argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkMode {
    /// Offer links below an argument as links. Follow a link that is an argument.
    Keep,
    /// Offer the entry that a link points to.
    Follow,
    /// Skip links below an argument. Follow a link that is an argument.
    Ignore,
    /// Offer all links as links, including arguments.
    KeepAll,
}

/// Request to a target: its permitted writes and their options.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetRequest {
    /// Settings common to both ends.
    pub settings: SessionSettings,
    /// Target path in bytes.
    pub path: Vec<u8>,
    /// The possible source arguments, in order.
    pub operands: Vec<TargetOperand>,
    /// Source arguments that arrive in batches while the job runs.
    pub listed: ListedKinds,
    /// Host and boot of the source. Identities of source arguments are comparable only on the same host and boot.
    pub source_boot: [u8; 16],
    /// Id of the source and its arguments over all runs.
    pub origin: [u8; 32],
    /// Whether an earlier attempt of this job broke. Its worker may need a while to notice, and holds its files until
    /// then.
    pub again: bool,
    /// Whether a directory at the path is an earlier attempt's copy of the only argument.
    pub own_tree: bool,
    /// Whether to create the target directory.
    pub make_directory: bool,
    /// Whether a directory is copied only into an existing one: a missing path is refused.
    pub needs_directory: bool,
    /// Rules for existing and new entries.
    pub rules: WriteOptions,
    /// The source's filters: extraneous entries that match them are left alone.
    pub filters: FilterOptions,
    /// Preserve modes, owners and groups.
    pub preserve: bool,
    /// Mapping of owners and groups.
    pub owners: OwnerOptions,
    /// Properties to preserve.
    pub kept: PreserveOptions,
    /// Verification beyond the transfer.
    pub verify: Verify,
    /// Read existing files to report their digests.
    pub digest_existing: bool,
    /// Method of writing files.
    pub storage: StorageRequest,
    /// Resume partial files of an earlier run, and keep the journals that the next one needs.
    pub resume: bool,
    /// Do so from 1 MiB on, not only where much would be sent again.
    pub small_journals: bool,
    /// Keep partial files when the job fails.
    pub keep_partial: bool,
    /// Directory of journals; empty: beside the partial files.
    pub journal_dir: Vec<u8>,
    /// Durability required before a file counts as copied.
    pub fsync: Fsync,
    /// Use of base files.
    pub delta: DeltaOptions,
    /// Sync options.
    pub sync: SyncOptions,
    /// Meaning of the path.
    pub pipe: PipeKind,
    /// Compare without writing, with a source that treats symbolic links in this way.
    pub compare: Option<SymlinkMode>,
}

/// A source argument as sent to the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetOperand {
    /// Name at the target inside a directory; `None` for a directory's contents (`.`, `/`).
    pub name: Option<Name>,
    /// Whether the argument is a directory.
    pub directory: bool,
    /// Device number at the source.
    pub device: u64,
    /// Inode number at the source.
    pub inode: u64,
}

mod kind {
    pub const SOURCE: u8 = 1;
    pub const TARGET: u8 = 2;
    pub const LISTEN: u8 = 3;
    pub const CONNECT: u8 = 4;
    pub const TUNNEL: u8 = 5;
    pub const BEGIN: u8 = 6;
    pub const CANCEL: u8 = 7;
    pub const RATE: u8 = 8;
    pub const PAUSE: u8 = 13;
    pub const STREAMS: u8 = 14;
    pub const LISTED_PATHS: u8 = 9;
    pub const LISTED_PLACES: u8 = 10;
    pub const EXPECTED: u8 = 11;
    pub const MEASURE: u8 = 12;
}

impl ControllerMessage {
    /// Encodes the message for the control channel.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Source(request) => {
                out.u8(kind::SOURCE);
                request.settings.encode(&mut out);
                out.count(request.operands.len());
                request.operands.iter().for_each(|path| {
                    out.bytes(path);
                });
                out.bool(request.listed);
                out.bytes(request.base.as_deref().unwrap_or_default());
                out.bool(request.recursive).u8(request.links.number());
                request.leave_out.encode(&mut out);
                request.kept.encode(&mut out);
                request.filters.encode(&mut out);
                out.bool(request.tell_left_out);
                out.u64(request.rate_bytes_per_s);
                request.storage.encode(&mut out);
                request.compression.encode(&mut out);
                request.pipe.encode(&mut out);
                out.bool(request.compare)
                    .bool(request.tell_digests)
                    .bool(request.remove_files)
                    .bool(request.tell_owners);
            }
            Self::Target(request) => {
                out.u8(kind::TARGET);
                request.encode(&mut out);
            }
            Self::Listen { address } => address::encode_optional(address.as_ref(), out.u8(kind::LISTEN)),
            Self::Connect { routes, timeout_ms } => route::encode_all(routes, out.u8(kind::CONNECT).u32(*timeout_ms)),
            Self::Tunnel { connector } => {
                out.u8(kind::TUNNEL).bool(*connector);
            }
            Self::Start { skip } => {
                out.u8(kind::BEGIN).bool(skip.is_some());
                skip.iter().for_each(|(device, inode)| {
                    out.u64(*device).u64(*inode);
                });
            }
            Self::Cancel => {
                out.u8(kind::CANCEL);
            }
            Self::Rate(bytes_per_s) => {
                out.u8(kind::RATE).u64(*bytes_per_s);
            }
            Self::Pause(is_paused) => {
                out.u8(kind::PAUSE).bool(*is_paused);
            }
            Self::Streams(count) => {
                out.u8(kind::STREAMS).u16(*count);
            }
            Self::Expected(lines) => {
                out.u8(kind::EXPECTED).bytes(lines);
            }
            Self::SourceBatch(paths) => paths.encode(out.u8(kind::LISTED_PATHS)),
            Self::DestinationBatch(places) => places.encode(out.u8(kind::LISTED_PLACES)),
            Self::Measure(request) => request.encode(out.u8(kind::MEASURE)),
        }
        out.into_bytes()
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            kind::SOURCE => Self::Source(decode_source(&mut reader)?),
            kind::TARGET => Self::Target(TargetRequest::decode(&mut reader)?),
            kind::LISTEN => Self::Listen { address: address::decode_optional(&mut reader)? },
            kind::CONNECT => {
                let timeout_ms = reader.u32()?;
                Self::Connect { routes: route::decode_all(&mut reader)?, timeout_ms }
            }
            kind::TUNNEL => Self::Tunnel { connector: reader.bool()? },
            kind::BEGIN => {
                let skip = if reader.bool()? { Some((reader.u64()?, reader.u64()?)) } else { None };
                Self::Start { skip }
            }
            kind::CANCEL => Self::Cancel,
            kind::RATE => Self::Rate(reader.u64()?),
            kind::PAUSE => Self::Pause(reader.bool()?),
            kind::STREAMS => Self::Streams(reader.u16()?),
            kind::LISTED_PATHS => Self::SourceBatch(SourceBatch::decode(&mut reader)?),
            kind::LISTED_PLACES => Self::DestinationBatch(DestinationBatch::decode(&mut reader)?),
            kind::EXPECTED => Self::Expected(reader.bytes(EXPECTED_PIECE_MAX, "lines of digests")?.to_vec()),
            kind::MEASURE => Self::Measure(MeasureRequest::decode(&mut reader)?),
            value => return Err(ProtocolError::Unknown { what: "message from a controller", value: value.into() }),
        };
        reader.finish()?;
        Ok(message)
    }
}

fn decode_source(reader: &mut Reader<'_>) -> Decoded<SourceRequest> {
    let settings = SessionSettings::decode(reader)?;
    let count = reader.count(OPERANDS_MAX, "operands")?;
    let operands = (0..count).map(|_| Ok(reader.bytes(PATH_MAX, "a path")?.to_vec())).collect::<Decoded<_>>()?;
    Ok(SourceRequest {
        settings,
        operands,
        listed: reader.bool()?,
        base: Some(reader.bytes(PATH_MAX, "a path")?.to_vec()).filter(|base| !base.is_empty()),
        recursive: reader.bool()?,
        links: SymlinkMode::from_number(reader.u8()?)?,
        leave_out: SkipOptions::decode(reader)?,
        kept: PreserveOptions::decode(reader)?,
        filters: FilterOptions::decode(reader)?,
        tell_left_out: reader.bool()?,
        rate_bytes_per_s: reader.u64()?,
        storage: StorageRequest::decode(reader)?,
        compression: CompressionPolicy::decode(reader)?,
        pipe: PipeKind::decode(reader)?,
        compare: reader.bool()?,
        tell_digests: reader.bool()?,
        remove_files: reader.bool()?,
        tell_owners: reader.bool()?,
    })
}

impl SymlinkMode {
    fn number(self) -> u8 {
        match self {
            SymlinkMode::Keep => 0,
            SymlinkMode::Follow => 1,
            SymlinkMode::Ignore => 2,
            SymlinkMode::KeepAll => 3,
        }
    }

    fn from_number(number: u8) -> Decoded<Self> {
        match number {
            0 => Ok(SymlinkMode::Keep),
            1 => Ok(SymlinkMode::Follow),
            2 => Ok(SymlinkMode::Ignore),
            3 => Ok(SymlinkMode::KeepAll),
            value => Err(ProtocolError::Unknown { what: "treatment of links", value: value.into() }),
        }
    }
}

impl TargetRequest {
    fn encode(&self, out: &mut Writer) {
        self.settings.encode(out);
        out.bytes(&self.path).count(self.operands.len());
        self.operands.iter().for_each(|operand| operand.encode(out));
        self.listed.encode(out);
        out.raw(&self.source_boot).raw(&self.origin);
        out.bool(self.again).bool(self.own_tree).bool(self.make_directory).bool(self.needs_directory);
        out.bool(self.preserve);
        self.owners.encode(out);
        self.kept.encode(out);
        self.verify.encode(out);
        out.bool(self.digest_existing);
        self.rules.encode(out);
        self.filters.encode(out);
        self.storage.encode(out);
        out.bool(self.resume).bool(self.small_journals).bool(self.keep_partial).bytes(&self.journal_dir);
        self.fsync.encode(out);
        self.delta.encode(out);
        self.sync.encode(out);
        self.pipe.encode(out);
        out.bool(self.compare.is_some());
        self.compare.iter().for_each(|links| {
            out.u8(links.number());
        });
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let settings = SessionSettings::decode(reader)?;
        let path = reader.bytes(PATH_MAX, "a path")?.to_vec();
        let count = reader.count(OPERANDS_MAX, "operands")?;
        let operands = (0..count).map(|_| TargetOperand::decode(reader)).collect::<Decoded<_>>()?;
        let request = Self {
            settings,
            path,
            operands,
            listed: ListedKinds::decode(reader)?,
            source_boot: reader.array()?,
            origin: reader.array()?,
            again: reader.bool()?,
            own_tree: reader.bool()?,
            make_directory: reader.bool()?,
            needs_directory: reader.bool()?,
            preserve: reader.bool()?,
            owners: OwnerOptions::decode(reader)?,
            kept: PreserveOptions::decode(reader)?,
            verify: Verify::decode(reader)?,
            digest_existing: reader.bool()?,
            rules: WriteOptions::decode(reader)?,
            filters: FilterOptions::decode(reader)?,
            storage: StorageRequest::decode(reader)?,
            resume: reader.bool()?,
            small_journals: reader.bool()?,
            keep_partial: reader.bool()?,
            journal_dir: reader.bytes(PATH_MAX, "a path")?.to_vec(),
            fsync: Fsync::decode(reader)?,
            delta: DeltaOptions::decode(reader)?,
            sync: SyncOptions::decode(reader)?,
            pipe: PipeKind::decode(reader)?,
            compare: if reader.bool()? { Some(SymlinkMode::from_number(reader.u8()?)?) } else { None },
        };
        if request.verify != Verify::Wire && !request.settings.blake3 {
            return Err(ProtocolError::Invalid("a verification without BLAKE3"));
        }
        Ok(request)
    }
}

impl TargetOperand {
    /// Writes a source argument.
    pub(super) fn encode(&self, out: &mut Writer) {
        encode_optional_name(self.name.as_ref(), out);
        out.bool(self.directory).u64(self.device).u64(self.inode);
    }

    /// Reads a source argument.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let name = decode_optional_name(reader)?;
        Ok(Self { name, directory: reader.bool()?, device: reader.u64()?, inode: reader.u64()? })
    }
}

impl SessionSettings {
    fn encode(&self, out: &mut Writer) {
        out.raw(&self.job.0).u32(self.number.0).raw(&self.session.0).raw(&self.secret).u8(self.suite.number());
        out.u32(self.frame.get()).u16(self.streams).u16(self.streams_max).text(&self.congestion, CONGESTION_MAX);
        out.u32(self.window_bytes).bool(self.window_fixed).u8(self.traffic_class).u64(self.rekey_bytes);
        out.bool(self.report_files).bool(self.blake3).u32(self.report_every_ms);
        self.cpus.encode(out);
        let (first, last) = self.ports.unwrap_or_default();
        out.bool(self.all_paths).u16(first).u16(last).u32(self.silence_ms);
        ChecksumRequest::encode(self.checksum.as_ref(), out);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let settings = Self {
            job: JobId(reader.array()?),
            number: JobNumber(reader.u32()?),
            session: JobId(reader.array()?),
            secret: reader.array()?,
            suite: CipherSuite::from_number(reader.u8()?)?,
            frame: FrameLen::new(reader.u32()?)?,
            streams: reader.u16()?,
            streams_max: reader.u16()?,
            congestion: reader.text(CONGESTION_MAX, "a name of a congestion control")?,
            window_bytes: reader.u32()?,
            window_fixed: reader.bool()?,
            traffic_class: reader.u8()?,
            rekey_bytes: reader.u64()?,
            report_files: reader.bool()?,
            blake3: reader.bool()?,
            report_every_ms: reader.u32()?,
            cpus: Cpus::decode(reader)?,
            all_paths: reader.bool()?,
            ports: Some((reader.u16()?, reader.u16()?)).filter(|ports| *ports != (0, 0)),
            silence_ms: reader.u32()?,
            checksum: ChecksumRequest::decode(reader)?,
        };
        if !(1..=settings.streams_max).contains(&settings.streams) || settings.streams_max > STREAMS_MAX {
            return Err(ProtocolError::OverLimit("streams"));
        }
        if settings.ports.is_some_and(|(first, last)| first == 0 || first > last) {
            return Err(ProtocolError::Invalid("a range of ports"));
        }
        if !(1..=REKEY_BYTES).contains(&settings.rekey_bytes) {
            return Err(ProtocolError::OverLimit("bytes under one key"));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::ChecksumAlgorithm;
    use crate::delta::options::DeltaMode;
    use crate::wire::checksum::ChecksumSource;
    use crate::wire::list_batch::OperandDestination;

    fn settings() -> SessionSettings {
        SessionSettings {
            job: JobId([1; 16]),
            number: JobNumber(1),
            session: JobId([2; 16]),
            secret: [3; 32],
            suite: CipherSuite::Aes256Gcm,
            frame: FrameLen::DEFAULT,
            streams: 4,
            streams_max: 256,
            congestion: "bbr".into(),
            window_bytes: 0,
            window_fixed: true,
            traffic_class: 0xb8,
            rekey_bytes: REKEY_BYTES,
            report_files: true,
            blake3: true,
            report_every_ms: 200,
            cpus: Cpus::default(),
            all_paths: true,
            ports: Some((5031, 5039)),
            silence_ms: 12_000,
            checksum: Some(ChecksumRequest {
                algorithm: ChecksumAlgorithm::Crc32,
                at_source: true,
                against: ChecksumSource::Value(vec![1; 4]),
            }),
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
                recursive: true,
                links: SymlinkMode::Ignore,
                leave_out: SkipOptions { unreadable: true, empty_directories: false },
                kept: PreserveOptions::default(),
                filters: FilterOptions { files: operand.name.iter().cloned().collect(), ..FilterOptions::default() },
                tell_left_out: true,
                storage: StorageRequest::default(),
                rate_bytes_per_s: u64::MAX,
                compression: CompressionPolicy::Auto,
                pipe: PipeKind::Named,
                compare: true,
                tell_digests: true,
                remove_files: false,
                tell_owners: true,
            }),
            ControllerMessage::Target(TargetRequest {
                settings: settings(),
                path: b"/archive/".to_vec(),
                operands: vec![operand, contents],
                listed: ListedKinds::Trees,
                source_boot: [5; 16],
                origin: [6; 32],
                again: true,
                own_tree: true,
                make_directory: false,
                needs_directory: true,
                preserve: false,
                owners: OwnerOptions { by_name: true, ..OwnerOptions::default() },
                kept: PreserveOptions::default(),
                verify: Verify::Memory,
                digest_existing: false,
                rules: WriteOptions::default(),
                filters: FilterOptions::default(),
                storage: StorageRequest::default(),
                resume: true,
                small_journals: true,
                keep_partial: false,
                journal_dir: b"/j".to_vec(),
                fsync: Fsync::Data,
                delta: DeltaOptions { delta: DeltaMode::Rolling, in_place: true, wrong_before: 1 },
                sync: SyncOptions { into: true, ..SyncOptions::default() },
                pipe: PipeKind::Standard,
                compare: Some(SymlinkMode::Follow),
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
            ControllerMessage::Expected(vec![9; 40]),
            ControllerMessage::SourceBatch(SourceBatch { first: 3, paths: vec![b"a/b".to_vec(), vec![]], last: true }),
            ControllerMessage::DestinationBatch(DestinationBatch { first: 3, places: vec![place] }),
        ]
    }

    #[test]
    fn messages_come_back_and_short_ones_are_faults() {
        for message in messages() {
            let bytes = message.encode();
            assert!(ControllerMessage::decode(&bytes) == Ok(message));
            for cut in 0..bytes.len() {
                assert!(ControllerMessage::decode(&bytes[..cut]).is_err());
            }
        }
    }

    #[test]
    fn settings_are_held_to_their_limits() {
        let good = (4, 4, 1);
        let encoded = |(streams, streams_max, rekey_bytes)| {
            let mut out = Writer::new();
            SessionSettings { streams, streams_max, rekey_bytes, ..settings() }.encode(&mut out);
            out.into_bytes()
        };
        assert!(SessionSettings::decode(&mut Reader::new(&encoded(good))).is_ok());
        for bad in [(0, 4, 1), (257, 257, 1), (5, 4, 1), (1, 257, 1), (4, 4, 0), (4, 4, REKEY_BYTES + 1)] {
            assert!(SessionSettings::decode(&mut Reader::new(&encoded(bad))).is_err(), "{bad:?}");
        }
        for (ports, is_good) in [((1, 1), true), ((0, 9), false), ((9, 8), false)] {
            let mut out = Writer::new();
            SessionSettings { ports: Some(ports), ..settings() }.encode(&mut out);
            assert_eq!(SessionSettings::decode(&mut Reader::new(&out.into_bytes())).is_ok(), is_good, "{ports:?}");
        }
    }
}
