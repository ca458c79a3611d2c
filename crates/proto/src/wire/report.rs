//! Reports of a worker to its controller: its identity, progress and results. The counters are in [`super::counters`].

use super::address::{self, LocalAddress};
use super::counters::{Counters, FinalReport};
use super::difference::Difference;
use super::measure::MeasureAnswer;
use super::sandbox::SandboxReport;
use crate::delta::options::DeltaCounters;
use crate::encoding::{Decoded, Reader, Writer};
use crate::encoding::{decode_figure, encode_figure};
use crate::error::ProtocolError;
use crate::feature::Features;
use crate::integrity::Digest;
use crate::limits::{CHECKSUM_MAX, LINKS_MAX, OPERANDS_MAX, PATH_MAX, TEXT_MAX};
use crate::sync::{ItemChange, SyncCounters};
use crate::wire::request::TargetOperand;
use crate::wire::resource_metrics::{ResourceMetrics, StreamFigures};
use crate::wire::slowest_files::SlowFile;
use crate::wire::source_activity::SourceActivity;

/// A message from a worker to its controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerMessage {
    /// The first message.
    Hello(WorkerHello),
    /// The source has opened its arguments; `None` stands for one that cannot be copied (already reported).
    SourceReady {
        /// In the order of the Request.
        operands: Vec<Option<TargetOperand>>,
        /// One digest over the absolute paths of the arguments; the target remembers a finished job by it.
        origin: [u8; 32],
    },
    /// The target has found its directory; all fields are zero without one.
    TargetReady {
        /// Host and boot of the target. Device and inode numbers are comparable only on the same host and boot.
        boot: [u8; 16],
        /// Device number of the directory.
        device: u64,
        /// Inode number of the directory.
        inode: u64,
        /// Whether the only argument, a directory, becomes a new directory under another name.
        new_tree: bool,
    },
    /// The Request cannot be carried out at all.
    Refused {
        /// Whether the user's command is at fault (exit status 2) or the environment (1).
        usage: bool,
        /// Reason and remedy.
        text: String,
    },
    /// The worker accepts data connections on this port.
    Listening {
        /// TCP port.
        port: u16,
    },
    /// The first data connection is open and authenticated; the others follow.
    Connected {
        /// Address and port of the connecting end.
        from: String,
        /// Address and port of the accepting end.
        to: String,
        /// Initial number of streams.
        streams: u16,
    },
    /// The data connections cannot be opened.
    CannotConnect {
        /// Reason.
        text: String,
    },
    /// Progress of this end.
    Counters(Box<Counters>),
    /// Time and resource use of this end.
    Load(Box<ResourceMetrics>),
    /// Statistics of each stream, once before Finished.
    Streams(Vec<StreamFigures>),
    /// Periodic activity of the source.
    Work(Box<SourceActivity>),
    /// Slowest files so far, slowest first. The target reports them periodically and before Finished.
    Slowest(Vec<SlowFile>),
    /// Results of base files, if any. The target reports them before Finished.
    Delta(DeltaCounters),
    /// A change, made or planned, of an entry at the target, where the Request asks for it.
    Item {
        /// Path at the target.
        path: Vec<u8>,
        /// The change.
        item: ItemChange,
    },
    /// Sync counters, unless all are zero. Each end reports them before Finished.
    Synced(SyncCounters),
    /// A file is complete: verified and under its final name.
    FileDone {
        /// Path from the source argument down.
        path: Vec<u8>,
        /// Size in bytes.
        size: u64,
        /// Whether it was copied; otherwise it existed already or was compared.
        copied: bool,
        /// BLAKE3 of the file, where it was computed.
        digest: Option<Digest>,
    },
    /// The transfer of a partial file resumes.
    Resumed {
        /// Path from the source argument down.
        path: Vec<u8>,
        /// Size of the whole file in bytes.
        size: u64,
        /// Bytes present, read and verified.
        held: u64,
        /// Number of frames that differ from their record.
        damaged: u64,
        /// Whether the source has to compare them, since its file may have changed.
        compared: bool,
    },
    /// An entry could not be copied.
    FileFailed {
        /// Path from the source argument down.
        path: Vec<u8>,
        /// Error and remedy.
        text: String,
    },
    /// An entry was skipped on purpose.
    Skipped {
        /// Path from the source argument down.
        path: Vec<u8>,
        /// Reason.
        text: String,
    },
    /// An entry differs between the ends, in a job that only compares.
    Differs {
        /// Path from the source argument down.
        path: Vec<u8>,
        /// The differences.
        differences: Vec<Difference>,
    },
    /// A requested digest of a file besides BLAKE3.
    Checksum {
        /// Path from the source argument down.
        path: Vec<u8>,
        /// The digest.
        digest: Vec<u8>,
    },
    /// Data uses these paths from now on.
    Paths {
        /// Address and port of the connecting and the accepting end of each path.
        in_use: Vec<(String, String)>,
        /// Reason for a change of path in one line; empty where no path was given up.
        because: String,
    },
    /// Any other information for the user.
    Warning {
        /// One line.
        text: String,
    },
    /// Report to a target that the source has offered all listed source arguments before this number.
    ListAck {
        /// The number.
        before: u32,
    },
    /// From now on, the kernel limits this end's access to the paths of its Request, as far as the report says.
    Sandboxed(SandboxReport),
    /// This end has finished its work.
    Finished(Box<FinalReport>),
    /// Result of a measurement.
    Measured(Box<MeasureAnswer>),
    /// This end cannot continue.
    Fatal {
        /// Whether the other end broke the protocol; the job is not retried then.
        fault: bool,
        /// Reason.
        text: String,
    },
}

/// Identity and capabilities of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerHello {
    /// Protocol version.
    pub protocol: u16,
    /// Supported features.
    pub features: Features,
    /// Number of usable cores.
    pub cores: u16,
    /// Whether the CPU has AES instructions.
    pub aes: bool,
    /// Id of the running kernel, equal for two workers on one machine.
    pub boot: [u8; 16],
    /// `client address, client port, server address, server port`, if started by ssh.
    pub ssh_connection: Option<String>,
    /// Addresses of its interfaces.
    pub addresses: Vec<LocalAddress>,
    /// Rate limit of this end in bytes per second; 0 for none.
    pub rate_bytes_per_s: u64,
    /// Largest automatic buffer sizes of its TCP sockets.
    pub windows: WindowLimits,
    /// Whether it requires sessions with BLAKE3, since its audit log contains the digest of each file.
    pub requires_blake3: bool,
}

/// Largest sizes of a TCP socket's buffers under the kernel's autotuning; 0 where they are unknown (tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowLimits {
    /// Receive buffer in bytes: the last value of `net.ipv4.tcp_rmem`.
    pub receive_max_bytes: u64,
    /// Send buffer in bytes: the last value of `net.ipv4.tcp_wmem`.
    pub send_max_bytes: u64,
}

mod kind {
    pub const HELLO: u8 = 1;
    pub const SOURCE_READY: u8 = 2;
    pub const TARGET_READY: u8 = 3;
    pub const REFUSED: u8 = 4;
    pub const LISTENING: u8 = 5;
    pub const CONNECTED: u8 = 6;
    pub const CANNOT_CONNECT: u8 = 7;
    pub const COUNTERS: u8 = 8;
    pub const FILE_DONE: u8 = 9;
    pub const FILE_FAILED: u8 = 10;
    pub const SKIPPED: u8 = 11;
    pub const FINISHED: u8 = 12;
    pub const FATAL: u8 = 13;
    pub const NOTICE: u8 = 14;
    pub const RESUMED: u8 = 15;
    pub const CONFINED: u8 = 16;
    pub const PATHS: u8 = 17;
    pub const DIFFERS: u8 = 18;
    pub const PASSED: u8 = 19;
    pub const CHECKSUM: u8 = 20;
    pub const LOAD: u8 = 21;
    pub const STREAMS: u8 = 22;
    pub const SLOWEST: u8 = 23;
    pub const WORK: u8 = 25;
    pub const MEASURED: u8 = 24;
    pub const DELTA: u8 = 26;
    pub const ITEM: u8 = 27;
    pub const SYNCED: u8 = 28;
}

impl WorkerMessage {
    /// Encodes the message for the control channel.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Hello(hello) => hello.encode(out.u8(kind::HELLO)),
            Self::SourceReady { operands, origin } => {
                out.u8(kind::SOURCE_READY).raw(origin).count(operands.len());
                operands.iter().for_each(|operand| encode_operand(&mut out, operand.as_ref()));
            }
            Self::TargetReady { boot, device, inode, new_tree } => {
                out.u8(kind::TARGET_READY).raw(boot).u64(*device).u64(*inode).bool(*new_tree);
            }
            Self::Refused { usage, text } => {
                out.u8(kind::REFUSED).bool(*usage).text(text, TEXT_MAX);
            }
            Self::Listening { port } => {
                out.u8(kind::LISTENING).u16(*port);
            }
            Self::Connected { from, to, streams } => {
                out.u8(kind::CONNECTED).text(from, TEXT_MAX).text(to, TEXT_MAX).u16(*streams);
            }
            Self::CannotConnect { text } => {
                out.u8(kind::CANNOT_CONNECT).text(text, TEXT_MAX);
            }
            Self::Counters(counters) => counters.encode(out.u8(kind::COUNTERS)),
            Self::Load(load) => load.encode(out.u8(kind::LOAD)),
            Self::Streams(streams) => StreamFigures::encode_all(streams, out.u8(kind::STREAMS)),
            Self::Slowest(files) => SlowFile::encode_all(files, out.u8(kind::SLOWEST)),
            Self::Delta(figures) => figures.encode(out.u8(kind::DELTA)),
            Self::Work(work) => work.encode(out.u8(kind::WORK)),
            Self::Item { path, item } => item.encode(out.u8(kind::ITEM).bytes(cut(path))),
            Self::Synced(figures) => figures.encode(out.u8(kind::SYNCED)),
            Self::FileDone { path, size, copied, digest } => {
                out.u8(kind::FILE_DONE).bytes(cut(path));
                encode_figure(*size, &mut out);
                out.bool(*copied).bool(digest.is_some());
                digest.iter().for_each(|digest| {
                    out.raw(digest);
                });
            }
            Self::Resumed { path, size, held, damaged, compared } => {
                out.u8(kind::RESUMED).bytes(cut(path));
                [size, held, damaged].iter().for_each(|figure| encode_figure(**figure, &mut out));
                out.bool(*compared);
            }
            Self::FileFailed { path, text } => {
                out.u8(kind::FILE_FAILED).bytes(cut(path)).text(text, TEXT_MAX);
            }
            Self::Skipped { path, text } => {
                out.u8(kind::SKIPPED).bytes(cut(path)).text(text, TEXT_MAX);
            }
            Self::Differs { path, differences } => {
                Difference::encode_all(differences, out.u8(kind::DIFFERS).bytes(cut(path)));
            }
            Self::Checksum { path, digest } => {
                out.u8(kind::CHECKSUM).bytes(cut(path)).bytes(digest);
            }
            Self::Paths { in_use, because } => {
                out.u8(kind::PATHS).count(in_use.len());
                in_use.iter().for_each(|(from, to)| {
                    out.text(from, TEXT_MAX).text(to, TEXT_MAX);
                });
                out.text(because, TEXT_MAX);
            }
            Self::Warning { text } => {
                out.u8(kind::NOTICE).text(text, TEXT_MAX);
            }
            Self::ListAck { before } => {
                out.u8(kind::PASSED).u32(*before);
            }
            Self::Sandboxed(sandbox) => sandbox.encode(out.u8(kind::CONFINED)),
            Self::Finished(last) => last.encode(out.u8(kind::FINISHED)),
            Self::Measured(measured) => measured.encode(out.u8(kind::MEASURED)),
            Self::Fatal { fault, text } => {
                out.u8(kind::FATAL).bool(*fault).text(text, TEXT_MAX);
            }
        }
        out.into_bytes()
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            kind::HELLO => Self::Hello(WorkerHello::decode(&mut reader)?),
            kind::SOURCE_READY => {
                let origin = reader.array()?;
                let count = reader.count(OPERANDS_MAX, "operands")?;
                let operands = (0..count).map(|_| decode_operand(&mut reader)).collect::<Decoded<_>>()?;
                Self::SourceReady { operands, origin }
            }
            kind::TARGET_READY => Self::TargetReady {
                boot: reader.array()?,
                device: reader.u64()?,
                inode: reader.u64()?,
                new_tree: reader.bool()?,
            },
            kind::REFUSED => Self::Refused { usage: reader.bool()?, text: text(&mut reader)? },
            kind::LISTENING => Self::Listening { port: reader.u16()? },
            kind::CONNECTED => {
                Self::Connected { from: text(&mut reader)?, to: text(&mut reader)?, streams: reader.u16()? }
            }
            kind::CANNOT_CONNECT => Self::CannotConnect { text: text(&mut reader)? },
            kind::COUNTERS => Self::Counters(Box::new(Counters::decode(&mut reader)?)),
            kind::LOAD => Self::Load(Box::new(ResourceMetrics::decode(&mut reader)?)),
            kind::STREAMS => Self::Streams(StreamFigures::decode_all(&mut reader)?),
            kind::DELTA => Self::Delta(DeltaCounters::decode(&mut reader)?),
            kind::SLOWEST => Self::Slowest(SlowFile::decode_all(&mut reader)?),
            kind::WORK => Self::Work(Box::new(SourceActivity::decode(&mut reader)?)),
            kind::ITEM => Self::Item { path: path(&mut reader)?, item: ItemChange::decode(&mut reader)? },
            kind::SYNCED => Self::Synced(SyncCounters::decode(&mut reader)?),
            kind::FILE_DONE => {
                let (path, size) = (path(&mut reader)?, decode_figure(&mut reader)?);
                let copied = reader.bool()?;
                let digest = if reader.bool()? { Some(reader.array()?) } else { None };
                Self::FileDone { path, size, copied, digest }
            }
            kind::RESUMED => Self::Resumed {
                path: path(&mut reader)?,
                size: decode_figure(&mut reader)?,
                held: decode_figure(&mut reader)?,
                damaged: decode_figure(&mut reader)?,
                compared: reader.bool()?,
            },
            kind::FILE_FAILED => Self::FileFailed { path: path(&mut reader)?, text: text(&mut reader)? },
            kind::SKIPPED => Self::Skipped { path: path(&mut reader)?, text: text(&mut reader)? },
            kind::DIFFERS => {
                Self::Differs { path: path(&mut reader)?, differences: Difference::decode_all(&mut reader)? }
            }
            kind::CHECKSUM => {
                Self::Checksum { path: path(&mut reader)?, digest: reader.bytes(CHECKSUM_MAX, "a checksum")?.to_vec() }
            }
            kind::PATHS => {
                let count = reader.count(LINKS_MAX, "paths")?;
                let path = |_| Ok((text(&mut reader)?, text(&mut reader)?));
                let in_use = (0..count).map(path).collect::<Decoded<_>>()?;
                Self::Paths { in_use, because: text(&mut reader)? }
            }
            kind::NOTICE => Self::Warning { text: text(&mut reader)? },
            kind::PASSED => Self::ListAck { before: reader.u32()? },
            kind::CONFINED => Self::Sandboxed(SandboxReport::decode(&mut reader)?),
            kind::FINISHED => Self::Finished(Box::new(FinalReport::decode(&mut reader)?)),
            kind::MEASURED => Self::Measured(Box::new(MeasureAnswer::decode(&mut reader)?)),
            kind::FATAL => Self::Fatal { fault: reader.bool()?, text: text(&mut reader)? },
            value => return Err(ProtocolError::Unknown { what: "message from a worker", value: value.into() }),
        };
        reader.finish()?;
        Ok(message)
    }
}

/// Truncates a long path for display; its end remains.
fn cut(path: &[u8]) -> &[u8] {
    &path[path.len().saturating_sub(PATH_MAX)..]
}

fn path(reader: &mut Reader<'_>) -> Decoded<Vec<u8>> {
    Ok(reader.bytes(PATH_MAX, "a path")?.to_vec())
}

fn text(reader: &mut Reader<'_>) -> Decoded<String> {
    reader.text(TEXT_MAX, "a text")
}

fn encode_operand(out: &mut Writer, operand: Option<&TargetOperand>) {
    out.bool(operand.is_some());
    operand.iter().for_each(|operand| operand.encode(out));
}

fn decode_operand(reader: &mut Reader<'_>) -> Decoded<Option<TargetOperand>> {
    if reader.bool()? { TargetOperand::decode(reader).map(Some) } else { Ok(None) }
}

impl WorkerHello {
    fn encode(&self, out: &mut Writer) {
        out.u16(self.protocol).u64(self.features.0).u16(self.cores).bool(self.aes).raw(&self.boot);
        out.text(self.ssh_connection.as_deref().unwrap_or_default(), TEXT_MAX);
        address::encode_all(&self.addresses, out);
        out.u64(self.rate_bytes_per_s);
        out.u64(self.windows.receive_max_bytes).u64(self.windows.send_max_bytes).bool(self.requires_blake3);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            protocol: reader.u16()?,
            features: Features(reader.u64()?),
            cores: reader.u16()?,
            aes: reader.bool()?,
            boot: reader.array()?,
            ssh_connection: Some(text(reader)?).filter(|text| !text.is_empty()),
            addresses: address::decode_all(reader)?,
            rate_bytes_per_s: reader.u64()?,
            windows: WindowLimits { receive_max_bytes: reader.u64()?, send_max_bytes: reader.u64()? },
            requires_blake3: reader.bool()?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::compression::CompressionMethod;
    use crate::entry::EntryKind;
    use crate::limits::FIGURE_MAX;
    use crate::path::Name;
    use crate::sync::ChangeKind;
    use crate::wire::counters::PathFigures;
    use crate::wire::counters::ReadBackBytes;
    use crate::wire::measure::TargetDirectoryFigures;
    use crate::wire::sandbox::Confinement;

    /// Returns one message of each kind, and several of some.
    pub fn samples() -> Vec<WorkerMessage> {
        let counters =
            Counters { files_found: 1, bytes_found: 2, walk_complete: true, frames_resent: 9, ..Counters::default() };
        let operand = TargetOperand { name: Name::new(b"x").ok(), directory: false, device: 3, inode: 4 };
        let hello = WorkerHello {
            protocol: 1,
            features: Features::ALL,
            cores: 2,
            aes: true,
            boot: [1; 16],
            ssh_connection: Some("::1 40000 ::1 22".into()),
            addresses: vec![address::tests::local("10.1.2.3/24", "eth0", 10_000)],
            rate_bytes_per_s: 1 << 40,
            windows: WindowLimits { receive_max_bytes: 6 << 20, send_max_bytes: 4 << 20 },
            requires_blake3: true,
        };
        let path = PathFigures { round_trip_us: 50_000, busy_us: FIGURE_MAX, ..PathFigures::default() };
        vec![
            WorkerMessage::Hello(hello),
            WorkerMessage::SourceReady { operands: vec![None, Some(operand)], origin: [2; 32] },
            WorkerMessage::TargetReady { boot: [7; 16], device: 1, inode: u64::MAX, new_tree: true },
            WorkerMessage::Refused { usage: true, text: "no".into() },
            WorkerMessage::Listening { port: 5031 },
            WorkerMessage::Connected { from: "a".into(), to: "b".into(), streams: 8 },
            WorkerMessage::CannotConnect { text: "timed out".into() },
            WorkerMessage::Counters(Box::new(counters)),
            WorkerMessage::Load(Box::new(ResourceMetrics { elapsed_us: 1 << 40, ..ResourceMetrics::default() })),
            WorkerMessage::Delta(DeltaCounters {
                files: 1,
                bytes: 1 << 40,
                old_bytes: 3,
                told_bytes: 4,
                carried_bytes: 5,
                wrong: 1,
            }),
            WorkerMessage::Slowest(vec![SlowFile { path: b"a\xff".to_vec(), size: 1 << 40, took_us: 7 }]),
            WorkerMessage::Work(Box::new(SourceActivity { files_under_way: 300, ..SourceActivity::default() })),
            WorkerMessage::Streams(vec![StreamFigures::default(), StreamFigures { stream: 1, ..Default::default() }]),
            WorkerMessage::FileDone { path: b"a\xff".to_vec(), size: 1 << 40, copied: true, digest: Some([4; 32]) },
            WorkerMessage::Resumed { path: b"a".to_vec(), size: 9, held: 8, damaged: 1, compared: true },
            WorkerMessage::FileFailed { path: b"a".to_vec(), text: "no space".into() },
            WorkerMessage::Skipped { path: b"a".to_vec(), text: "is a FIFO".into() },
            WorkerMessage::Differs { path: b"a".to_vec(), differences: vec![Difference::Missing(EntryKind::File)] },
            WorkerMessage::Item {
                path: b"a".to_vec(),
                item: ItemChange { what: EntryKind::File, change: ChangeKind::Removed },
            },
            WorkerMessage::Synced(SyncCounters { removed: 7, ..SyncCounters::default() }),
            WorkerMessage::ListAck { before: 1 << 20 },
            WorkerMessage::Checksum { path: b"a".to_vec(), digest: vec![7; 16] },
            WorkerMessage::Finished(Box::new(FinalReport {
                counters,
                cpu_us: 5,
                system_us: 2,
                peak_bytes: 6,
                direct_bytes: 7,
                cloned_bytes: 8,
                durable: true,
                read_back: ReadBackBytes { disk_bytes: 9, cache_bytes: 10, memory_bytes: 11 },
                path,
                compression: Some(CompressionMethod::Zstd(3)),
            })),
            WorkerMessage::Measured(Box::default()),
            WorkerMessage::Measured(Box::new(MeasureAnswer {
                hash_bytes_per_s: 1 << 40,
                congestion_controls: "cubic bbr".into(),
                place: Some(TargetDirectoryFigures {
                    scratch: b"/a".to_vec(),
                    removed: 1,
                    ..TargetDirectoryFigures::default()
                }),
                ..MeasureAnswer::default()
            })),
            WorkerMessage::Paths { in_use: vec![("a:1".into(), "b:2".into())], because: "faster".into() },
            WorkerMessage::Warning { text: "by the way".into() },
            WorkerMessage::Sandboxed(SandboxReport {
                confinement: Confinement::Partial,
                reason: "an old kernel".into(),
            }),
            WorkerMessage::Fatal { fault: true, text: "why".into() },
        ]
    }

    #[test]
    fn messages_come_back_and_short_ones_are_faults() {
        for message in samples() {
            let bytes = message.encode();
            assert_eq!(WorkerMessage::decode(&bytes), Ok(message));
            assert!((0..bytes.len()).all(|cut| WorkerMessage::decode(&bytes[..cut]).is_err()));
        }
    }

    #[test]
    fn of_a_path_that_is_too_long_the_end_is_kept() {
        let path = [vec![b'a'; PATH_MAX], b"end".to_vec()].concat();
        let message = WorkerMessage::FileDone { path, size: 0, copied: false, digest: None };
        let Ok(WorkerMessage::FileDone { path, .. }) = WorkerMessage::decode(&message.encode()) else { panic!() };
        assert!(path.len() == PATH_MAX && path.ends_with(b"aend"));
    }
}
