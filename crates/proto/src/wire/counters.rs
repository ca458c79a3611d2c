//! Counters that a worker reports: its progress, and at the end its use of resources.

use crate::codec::{FieldCodec, Wire, wire_struct};
use crate::compression::{CompressionMethod, CompressionPolicy};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::field_codecs::{FixedFigure, ReportFigure};
use crate::wire::worker_ends::WorkerEnds;

/// Declares every counter of [`Counters`] once, in the order of the wire: its documentation, its name, the ends that may
/// report it, its name in an error, and the operation that joins the counts of two ends. `$apply` is a macro that takes
/// these rows.
#[macro_export]
macro_rules! with_counters {
    ($apply:ident) => {
        $apply! {
            /// Files found.
            files_found: SOURCE, "files found", saturating_add;
            /// Their bytes.
            bytes_found: SOURCE, "bytes found", saturating_add;
            /// Files copied.
            files_copied: TARGET, "files copied", saturating_add;
            /// Files that existed already.
            files_skipped: TARGET, "files skipped", saturating_add;
            /// Directories created or found.
            directories: TARGET, "directories", saturating_add;
            /// Symbolic links created or found equal.
            symlinks: TARGET, "symlinks", saturating_add;
            /// Entries that failed at this end.
            failed: BOTH, "failed entries", saturating_add;
            /// Entries that the source listed, and that were gone before they were read.
            vanished: SOURCE, "vanished entries", saturating_add;
            /// Entries skipped on purpose.
            left_out: BOTH, "skipped entries", saturating_add;
            /// Entries excluded by filters; a directory with its contents counts as one.
            filtered: SOURCE, "entries filtered", saturating_add;
            /// Bytes written.
            bytes_written: TARGET, "bytes written", saturating_add;
            /// The part of them that storage had to take: neither holes, nor blocks shared with another file, nor blocks
            /// of an updated file that stay.
            bytes_stored: TARGET, "bytes stored", saturating_add;
            /// Bytes of files that existed already.
            bytes_skipped: TARGET, "bytes skipped", saturating_add;
            /// Frames that arrived damaged and were requested again.
            frames_resent: TARGET, "frames resent", saturating_add;
            /// Streams in use now, counted by the source.
            streams: SOURCE, "streams", max;
            /// Payload bytes sent by the source, before compression.
            bytes_carried: SOURCE, "bytes carried", saturating_add;
            /// Bytes of the records sent with them.
            bytes_on_wire: SOURCE, "bytes on the wire", saturating_add;
            /// Files compared with the target's in a copy that only compares, counted by the target.
            files_compared: TARGET, "files compared", saturating_add;
            /// Bytes read and compared by both ends, counted by the source.
            bytes_compared: SOURCE, "bytes compared", saturating_add;
            /// Entries that differ between the ends, counted by the target.
            differences: TARGET, "differences", saturating_add;
            /// Entries of all types offered by the source.
            entries_offered: SOURCE, "entries offered", saturating_add;
        }
    };
}

macro_rules! declare_counters {
    ($($(#[$doc:meta])* $name:ident: $ends:ident, $words:literal, $join:ident;)*) => {
        wire_struct! {
            /// Progress of an end. The source counts entries found, the target entries completed.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
            pub struct Counters {
                /// Whether the walk has found everything.
                pub walk_complete: bool,
                $($(#[$doc])* pub $name: u64 as ReportFigure,)*
            }
        }

        impl Counters {
            /// Returns the sum of both ends' counters; each counts what the other does not. A peer's numbers may be
            /// arbitrary, so sums saturate.
            pub fn plus(&self, other: &Counters) -> Counters {
                Counters {
                    walk_complete: self.walk_complete || other.walk_complete,
                    $($name: self.$name.$join(other.$name),)*
                }
            }

            /// Returns the first non-zero counter that belongs to none of `ends`.
            pub fn foreign(&self, ends: WorkerEnds) -> Option<&'static str> {
                let walk = (self.walk_complete && !ends.source).then_some("the end of the walk");
                let counted = [$((WorkerEnds::$ends, $words, self.$name),)*];
                let is_foreign = |(owner, _, count): &(WorkerEnds, _, u64)| *count != 0 && !ends.meet(*owner);
                walk.or_else(|| counted.iter().find(|row| is_foreign(row)).map(|(_, words, _)| *words))
            }
        }
    };
}

with_counters!(declare_counters);

wire_struct! {
    /// Bytes read back by a target that verifies the disk, by their origin.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ReadBackBytes {
        /// With O_DIRECT.
        pub disk_bytes: u64 as ReportFigure,
        /// Possibly from the page cache, on a file system without O_DIRECT.
        pub cache_bytes: u64 as ReportFigure,
        /// From memory, on a file system without a disk.
        pub memory_bytes: u64 as ReportFigure,
    }
}

wire_struct! {
    /// Final report of an end.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct FinalReport {
        /// Final progress.
        pub counters: Counters,
        /// User and system time of the process, in microseconds.
        pub cpu_us: u64 as FixedFigure,
        /// System time within it, in microseconds.
        pub system_us: u64 as FixedFigure,
        /// Peak resident memory, in bytes.
        pub peak_bytes: u64 as FixedFigure,
        /// Bytes read or written with O_DIRECT.
        pub direct_bytes: u64 as FixedFigure,
        /// Bytes cloned instead of copied: the target's file shares its blocks with the source's.
        pub cloned_bytes: u64 as FixedFigure,
        /// Whether every copied file is on disk under its name. Only the target reports it.
        pub durable: bool,
        /// Bytes read back and found intact.
        pub read_back: ReadBackBytes,
        /// Network statistics of the source's sockets; all zero at the target, and without TCP.
        pub path: PathFigures,
        /// Method used for most of the compressed bytes. Only the source reports it; `None` without compressed bytes.
        pub compression: Option<CompressionMethod> as NegotiatedMethod,
    }
}

wire_struct! {
    /// Network statistics of all streams' sockets (tcp(7), `TCP_INFO`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct PathFigures {
        /// Shortest observed round-trip time, in microseconds.
        pub round_trip_us: u64 as ReportFigure,
        /// Segments sent with data, retransmits included.
        pub segments: u64 as ReportFigure,
        /// Retransmitted segments.
        pub retransmitted: u64 as ReportFigure,
        /// Time with data to send, in microseconds, of all streams together.
        pub busy_us: u64 as ReportFigure,
        /// The part of it with a full receive window.
        pub receiver_limited_us: u64 as ReportFigure,
        /// The part of it with too small a send buffer.
        pub buffer_limited_us: u64 as ReportFigure,
    }
}

/// The method of a policy; off stands for `None`.
struct NegotiatedMethod;

impl FieldCodec<Option<CompressionMethod>> for NegotiatedMethod {
    fn encode(&self, method: &Option<CompressionMethod>, out: &mut Writer) {
        method.map_or(CompressionPolicy::Off, CompressionPolicy::Always).encode(out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Option<CompressionMethod>> {
        match CompressionPolicy::decode(reader)? {
            CompressionPolicy::Off => Ok(None),
            CompressionPolicy::Always(method) => Ok(Some(method)),
            CompressionPolicy::Auto => Err(ProtocolError::Invalid("a compression that was not negotiated")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{from_bytes, to_bytes};
    use crate::limits::FIGURE_MAX;

    #[test]
    fn counters_of_a_peer_cannot_overflow() {
        let most = Counters { bytes_written: u64::MAX, failed: 1, walk_complete: true, ..Counters::default() };
        let sum = most.plus(&most);
        assert_eq!((sum.bytes_written, sum.failed, sum.walk_complete), (u64::MAX, 2, true));
    }

    #[test]
    fn a_figure_beyond_its_limit_is_cut_by_its_writer_and_a_fault_to_its_reader() {
        let bytes = to_bytes(&Counters { bytes_written: u64::MAX, ..Counters::default() });
        assert_eq!(from_bytes(&bytes).map(|read: Counters| read.bytes_written), Ok(FIGURE_MAX));
        let mut out = Writer::new();
        out.bool(true).varint(FIGURE_MAX + 1).raw(&[0; 18]);
        let fault = Err(ProtocolError::OverLimit("values of a report"));
        assert_eq!(from_bytes::<Counters>(&out.into_bytes()), fault);
    }
}
