//! Reports of a worker to its controller: its identity, progress and results. The counters are in [`super::counters`].

use super::address::LocalAddress;
use super::counters::{Counters, FinalReport};
use super::difference::Difference;
use super::expansion::ExpandedPatterns;
use super::file_session::FileAnswer;
use super::measure::MeasureAnswer;
use super::replica_session::ReplicaAnswer;
use super::sandbox::SandboxReport;
use crate::codec::{OfType, from_bytes, to_bytes, wire_enum, wire_struct};
use crate::delta::options::DeltaCounters;
use crate::encoding::Decoded;
use crate::entry::Timestamp;
use crate::feature::Features;
use crate::field_codecs::{BoundedBytes, DefaultIsNone, Optional, ReportFigure, ShownPath, TEXT, first_of, list};
use crate::integrity::Digest;
use crate::limits::{
    ADDRESSES_MAX, CHECKSUM_MAX, DIFFERENCES_MAX, LINKS_MAX, OPERANDS_MAX, SLOWEST_MAX, STREAM_FIGURES_MAX,
};
use crate::sync::{ItemChange, SyncCounters};
use crate::wire::request::TargetOperand;
use crate::wire::resource_metrics::{ResourceMetrics, StreamFigures};
use crate::wire::source_activity::SourceActivity;

wire_enum! {
    /// A message from a worker to its controller.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum WorkerMessage: "message from a worker" {
        /// The first message.
        Hello(hello: WorkerHello) = 1,
        /// The source has opened its arguments; `None` stands for one that cannot be copied (already reported).
        SourceReady {
            /// One digest over the absolute paths of the arguments; the target remembers a finished copy by it.
            origin: [u8; 32],
            /// In the order of the Request.
            operands: Vec<Option<TargetOperand>> as list(OfType, OPERANDS_MAX, "operands"),
        } = 2,
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
        } = 3,
        /// The Request cannot be carried out at all.
        Refused {
            /// Whether the user's command is at fault (exit status 2) or the environment (1).
            usage: bool,
            /// Reason and remedy.
            text: String as TEXT,
        } = 4,
        /// The worker accepts data connections on this port.
        Listening {
            /// TCP port.
            port: u16,
        } = 5,
        /// The first data connection is open and authenticated; the others follow.
        Connected {
            /// Address and port of the connecting end.
            from: String as TEXT,
            /// Address and port of the accepting end.
            to: String as TEXT,
            /// Initial number of streams.
            streams: u16,
        } = 6,
        /// The data connections cannot be opened.
        CannotConnect {
            /// Reason.
            text: String as TEXT,
        } = 7,
        /// Progress of this end.
        Counters(counters: Box<Counters>) = 8,
        /// Time and resource use of this end.
        Load(load: Box<ResourceMetrics>) = 21,
        /// Statistics of each stream, once before Finished.
        Streams(streams: Vec<StreamFigures> as list(OfType, STREAM_FIGURES_MAX, "values of streams")) = 22,
        /// Periodic activity of the source.
        Work(work: Box<SourceActivity>) = 25,
        /// Slowest files so far, slowest first. The target reports them periodically and before Finished.
        Slowest(files: Vec<SlowFile> as first_of(OfType, SLOWEST_MAX, "slow files")) = 23,
        /// Results of base files, if any. The target reports them before Finished.
        Delta(counters: DeltaCounters) = 26,
        /// A change, made or planned, of an entry at the target, where the Request asks for it.
        Item(item: ItemReport) = 27,
        /// Sync counters, unless all are zero. Each end reports them before Finished.
        Synced(counters: SyncCounters) = 28,
        /// A file is complete: verified and under its final name.
        FileDone(file: FileReport) = 9,
        /// The transfer of a partial file resumes.
        Resumed(file: ResumeReport) = 15,
        /// An entry could not be copied.
        FileFailed {
            /// Path from the source argument down.
            path: Vec<u8> as ShownPath,
            /// Error and remedy.
            text: String as TEXT,
        } = 10,
        /// An entry was skipped on purpose.
        Skipped(entry: SkipReport) = 11,
        /// An entry changed at the source while it was copied, and did not fail.
        SourceChanged {
            /// Its path.
            path: Vec<u8> as ShownPath,
            /// The change.
            change: SourceChange,
        } = 29,
        /// An entry differs between the ends, in a copy that only compares.
        Differs {
            /// Path from the source argument down.
            path: Vec<u8> as ShownPath,
            /// The differences.
            differences: Vec<Difference> as list(OfType, DIFFERENCES_MAX, "differences"),
        } = 18,
        /// A requested digest of a file besides BLAKE3.
        Checksum {
            /// Path from the source argument down.
            path: Vec<u8> as ShownPath,
            /// The digest.
            digest: Vec<u8> as BoundedBytes(CHECKSUM_MAX, "a checksum"),
        } = 20,
        /// Data uses these paths from now on.
        Paths {
            /// Address and port of the connecting and the accepting end of each path.
            in_use: Vec<(String, String)> as list((TEXT, TEXT), LINKS_MAX, "paths"),
            /// Reason for a change of path in one line; empty where no path was given up.
            because: String as TEXT,
        } = 17,
        /// Any other information for the user.
        Warning {
            /// One line.
            text: String as TEXT,
        } = 14,
        /// Report to a target that the source has offered all listed source arguments before this number.
        ListAck {
            /// The number.
            before: u32,
        } = 19,
        /// From now on, the kernel limits this end's access to the paths of its Request, as far as the report says.
        Sandboxed(sandbox: SandboxReport) = 16,
        /// This end has finished its work.
        Finished(last: Box<FinalReport>) = 12,
        /// Result of a measurement.
        Measured(answer: Box<MeasureAnswer>) = 24,
        /// Answer of a file session.
        FileAnswer(answer: FileAnswer) = 30,
        /// Answer to Expand.
        Expanded(expanded: ExpandedPatterns) = 31,
        /// The answer to a step of a replica session, or to its Request.
        ReplicaAnswer(answer: Box<ReplicaAnswer>) = 32,
        /// This end cannot continue.
        Fatal {
            /// Whether the other end broke the protocol; the copy is not retried then.
            fault: bool,
            /// Reason.
            text: String as TEXT,
        } = 13,
    }
}

wire_struct! {
    /// A complete file. Paths of reports lead from the source argument down; they are bytes, not text.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FileReport {
        /// Its path.
        pub path: Vec<u8> as ShownPath,
        /// Size in bytes.
        pub size: u64 as ReportFigure,
        /// Whether it was copied; otherwise it existed already or was compared.
        pub copied: bool,
        /// BLAKE3 of the file, where it was computed.
        pub digest: Option<Digest>,
    }
}

wire_struct! {
    /// A partial file of an earlier run whose transfer resumes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ResumeReport {
        /// Its path.
        pub path: Vec<u8> as ShownPath,
        /// Size of the whole file in bytes.
        pub size: u64 as ReportFigure,
        /// Bytes present, read and verified.
        pub held: u64 as ReportFigure,
        /// Number of frames that differ from their record, and are sent again.
        pub damaged: u64 as ReportFigure,
        /// Whether the source has to compare them, since its file may have changed.
        pub compared: bool,
    }
}

wire_struct! {
    /// A change at the target, made or planned.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ItemReport {
        /// Path at the target.
        pub path: Vec<u8> as ShownPath,
        /// The change.
        pub item: ItemChange,
        /// Length of a file in bytes; `None` of a further name of a file, of anything else, and of what is removed.
        pub size: Option<u64> as Optional(ReportFigure),
        /// Time of last modification at the source; `None` of what is removed, and of a created destination.
        pub modified: Option<Timestamp> as Optional(OfType),
        /// Path at the target of the file's first name, of a further one.
        pub first_name: Option<Vec<u8>> as Optional(ShownPath),
    }
}

wire_struct! {
    /// An entry that was skipped on purpose.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SkipReport {
        /// Its path.
        pub path: Vec<u8> as ShownPath,
        /// Reason.
        pub reason: String as TEXT,
    }
}

wire_enum! {
    /// A change of a source entry that is no failure.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum SourceChange: "change of a source" {
        /// Listed, and gone before it was read.
        Vanished = 0,
        /// A file that grew: copied up to the length at its offer.
        Grew = 1,
    }
}

wire_struct! {
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
        pub ssh_connection: Option<String> as DefaultIsNone(TEXT),
        /// Addresses of its interfaces.
        pub addresses: Vec<LocalAddress> as first_of(OfType, ADDRESSES_MAX, "addresses"),
        /// Rate limit of this end in bytes per second; 0 for none.
        pub rate_bytes_per_s: u64,
        /// Largest automatic buffer sizes of its TCP sockets.
        pub windows: WindowLimits,
        /// Whether it requires sessions with BLAKE3, since its audit log contains the digest of each file.
        pub requires_blake3: bool,
    }
}

wire_struct! {
    /// Largest sizes of a TCP socket's buffers under the kernel's autotuning; 0 where they are unknown (tcp(7)).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct WindowLimits {
        /// Receive buffer in bytes: the last value of `net.ipv4.tcp_rmem`.
        pub receive_max_bytes: u64,
        /// Send buffer in bytes: the last value of `net.ipv4.tcp_wmem`.
        pub send_max_bytes: u64,
    }
}

impl WorkerMessage {
    /// Encodes the message for the control channel.
    pub fn encode(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        from_bytes(bytes)
    }
}

wire_struct! {
    /// A file and its duration.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SlowFile {
        /// Path from the source argument down.
        pub path: Vec<u8> as ShownPath,
        /// Size in bytes.
        pub size: u64 as ReportFigure,
        /// Time from its first write to its final name, in microseconds.
        pub took_us: u64 as ReportFigure,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::compression::CompressionMethod;
    use crate::entry::EntryKind;
    use crate::limits::{FIGURE_MAX, PATH_MAX};
    use crate::path::Name;
    use crate::sync::ChangeKind;
    use crate::watch::ChangedPart;
    use crate::wire::address::tests::local;
    use crate::wire::counters::{PathFigures, ReadBackBytes};
    use crate::wire::expansion::PatternMatch;
    use crate::wire::file_session::WatchCoverage;
    use crate::wire::file_session::{DiskUsage, FailedEntries, FileFailure, FoundEntry, OpenFileVersion};
    use crate::wire::measure::TargetDirectoryFigures;
    use crate::wire::samples::replica_answers;
    use crate::wire::sandbox::Confinement;

    fn version() -> OpenFileVersion {
        let time = Timestamp { seconds: -1, nanoseconds: 7 };
        OpenFileVersion { size: 1 << 40, device: 2, inode: u64::MAX, modified: time, changed: time }
    }

    /// Returns one message of each kind, and several of some.
    pub fn samples() -> Vec<WorkerMessage> {
        let found = FoundEntry { mode: 0o100_644, size: 7, modified: version().modified, points_to: b"b".to_vec() };
        let failures = FailedEntries { count: 9, first: vec![(b"a\xff".to_vec(), "busy".into())] };
        let usage = DiskUsage { entries: 9, bytes: 1 << 40, disk_bytes: 7, repeats_links: true, ..Default::default() };
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
            addresses: vec![local("10.1.2.3/24", "eth0", 10_000)],
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
            WorkerMessage::Work(Box::new(SourceActivity { files_in_progress: 300, ..SourceActivity::default() })),
            WorkerMessage::Streams(vec![StreamFigures::default(), StreamFigures { stream: 1, ..Default::default() }]),
            WorkerMessage::FileDone(FileReport {
                path: b"a\xff".to_vec(),
                size: 1 << 40,
                copied: true,
                digest: Some([4; 32]),
            }),
            WorkerMessage::Resumed(ResumeReport { path: b"a".to_vec(), size: 9, held: 8, damaged: 1, compared: true }),
            WorkerMessage::FileFailed { path: b"a".to_vec(), text: "no space".into() },
            WorkerMessage::Skipped(SkipReport { path: b"a".to_vec(), reason: "is a FIFO".into() }),
            WorkerMessage::SourceChanged { path: b"log".to_vec(), change: SourceChange::Grew },
            WorkerMessage::Differs { path: b"a".to_vec(), differences: vec![Difference::Missing(EntryKind::File)] },
            WorkerMessage::Item(ItemReport {
                path: b"a".to_vec(),
                item: ItemChange { what: EntryKind::File, change: ChangeKind::Made },
                size: Some(300),
                modified: Some(Timestamp { seconds: -1, nanoseconds: 7 }),
                first_name: Some(b"b".to_vec()),
            }),
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
            WorkerMessage::FileAnswer(FileAnswer::Ready),
            WorkerMessage::FileAnswer(FileAnswer::Opened { file: 7, version: version() }),
            WorkerMessage::FileAnswer(FileAnswer::Data { bytes: vec![9; 40] }),
            WorkerMessage::FileAnswer(FileAnswer::Closed),
            WorkerMessage::FileAnswer(FileAnswer::Failed { failure: FileFailure::Changed, text: "why".into() }),
            WorkerMessage::FileAnswer(FileAnswer::Made),
            WorkerMessage::FileAnswer(FileAnswer::Found(found.clone())),
            WorkerMessage::FileAnswer(FileAnswer::Listed {
                listing: 7,
                entries: vec![(Name::new(b"a").unwrap(), found)],
                is_last: false,
            }),
            WorkerMessage::FileAnswer(FileAnswer::Measured(DiskUsage { failures: failures.clone(), ..usage })),
            WorkerMessage::FileAnswer(FileAnswer::Removed { entries: 7, failures }),
            WorkerMessage::FileAnswer(FileAnswer::Watching(WatchCoverage { directories: 7, is_shared: true })),
            WorkerMessage::FileAnswer(FileAnswer::Changed(ChangedPart::Everything)),
            WorkerMessage::Expanded(ExpandedPatterns {
                matches: vec![PatternMatch { pattern: 1, alternative: 999, path: b"a\xff".to_vec() }],
            }),
            WorkerMessage::Paths { in_use: vec![("a:1".into(), "b:2".into())], because: "faster".into() },
            WorkerMessage::Warning { text: "by the way".into() },
            WorkerMessage::Sandboxed(SandboxReport {
                confinement: Confinement::Partial,
                reason: "an old kernel".into(),
            }),
            WorkerMessage::Fatal { fault: true, text: "why".into() },
        ]
        .into_iter()
        .chain(replica_answers().into_iter().map(|(_, answer)| WorkerMessage::ReplicaAnswer(Box::new(answer))))
        .collect()
    }

    #[test]
    fn messages_round_trip_and_short_ones_are_faults() {
        for message in samples() {
            let bytes = message.encode();
            assert_eq!(WorkerMessage::decode(&bytes), Ok(message));
            assert!((0..bytes.len()).all(|cut| WorkerMessage::decode(&bytes[..cut]).is_err()));
        }
    }

    #[test]
    fn of_too_many_addresses_the_first_are_sent() {
        let Some(WorkerMessage::Hello(hello)) = samples().into_iter().next() else { panic!() };
        let addresses = vec![hello.addresses[0].clone(); ADDRESSES_MAX + 1];
        let message = WorkerMessage::Hello(WorkerHello { addresses, ..hello });
        let Ok(WorkerMessage::Hello(hello)) = WorkerMessage::decode(&message.encode()) else { panic!() };
        assert_eq!(hello.addresses.len(), ADDRESSES_MAX);
    }

    #[test]
    fn an_overlong_path_keeps_its_end() {
        let path = [vec![b'a'; PATH_MAX], b"end".to_vec()].concat();
        let message = WorkerMessage::FileDone(FileReport { path, size: 0, copied: false, digest: None });
        let Ok(WorkerMessage::FileDone(FileReport { path, .. })) = WorkerMessage::decode(&message.encode()) else {
            panic!()
        };
        assert!(path.len() == PATH_MAX && path.ends_with(b"aend"));
    }
}
