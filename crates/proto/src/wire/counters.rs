//! Counters that a worker reports: its progress, and at the end its use of resources.

use crate::compression::{CompressionMethod, CompressionPolicy};
use crate::encoding::bounded_figure;
use crate::encoding::decode_figure;
use crate::encoding::encode_figure;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::FIGURE_MAX;

/// Progress of an end. The source counts entries found, the target entries completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Files found.
    pub files_found: u64,
    /// Their bytes.
    pub bytes_found: u64,
    /// Whether the walk has found everything.
    pub walk_complete: bool,
    /// Files copied.
    pub files_copied: u64,
    /// Files that existed already.
    pub files_skipped: u64,
    /// Directories created or found.
    pub directories: u64,
    /// Symbolic links created or found equal.
    pub symlinks: u64,
    /// Entries that failed at this end.
    pub failed: u64,
    /// Entries skipped on purpose.
    pub left_out: u64,
    /// Entries excluded by filters; a directory with its contents counts as one.
    pub filtered: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes of files that existed already.
    pub bytes_skipped: u64,
    /// Frames that arrived damaged and were requested again.
    pub frames_resent: u64,
    /// Streams in use now, counted by the source.
    pub streams: u64,
    /// Payload bytes sent by the source, before compression.
    pub bytes_carried: u64,
    /// Bytes of the records sent with them.
    pub bytes_on_wire: u64,
    /// Files compared with the target's in a job that only compares, counted by the target.
    pub files_compared: u64,
    /// Bytes read and compared by both ends, counted by the source.
    pub bytes_compared: u64,
    /// Entries that differ between the ends, counted by the target.
    pub differences: u64,
}

/// Bytes read back by a target that verifies the disk, by their origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadBackBytes {
    /// With O_DIRECT.
    pub disk_bytes: u64,
    /// Possibly from the page cache, on a file system without O_DIRECT.
    pub cache_bytes: u64,
    /// From memory, on a file system without a disk.
    pub memory_bytes: u64,
}

/// Final report of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FinalReport {
    /// Final progress.
    pub counters: Counters,
    /// User and system time of the process, in microseconds.
    pub cpu_us: u64,
    /// System time within it, in microseconds.
    pub system_us: u64,
    /// Peak resident memory, in bytes.
    pub peak_bytes: u64,
    /// Bytes read or written with O_DIRECT.
    pub direct_bytes: u64,
    /// Bytes cloned instead of copied: the target's file shares its blocks with the source's.
    pub cloned_bytes: u64,
    /// Whether every copied file is on disk under its name. Only the target reports it.
    pub durable: bool,
    /// Bytes read back and found intact.
    pub read_back: ReadBackBytes,
    /// Network statistics of the source's sockets; all zero at the target, and without TCP.
    pub path: PathFigures,
    /// Method used for most of the compressed bytes. Only the source reports it; `None` without compressed bytes.
    pub compression: Option<CompressionMethod>,
}

/// Network statistics of all streams' sockets (tcp(7), `TCP_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathFigures {
    /// Shortest observed round-trip time, in microseconds.
    pub round_trip_us: u64,
    /// Segments sent with data, retransmits included.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Time with data to send, in microseconds, of all streams together.
    pub busy_us: u64,
    /// The part of it with a full receive window.
    pub receiver_limited_us: u64,
    /// The part of it with too small a send buffer.
    pub buffer_limited_us: u64,
}

impl Counters {
    fn fields(&self) -> [u64; 18] {
        [
            self.files_found,
            self.bytes_found,
            self.files_copied,
            self.files_skipped,
            self.directories,
            self.symlinks,
            self.failed,
            self.left_out,
            self.filtered,
            self.bytes_written,
            self.bytes_skipped,
            self.frames_resent,
            self.streams,
            self.bytes_carried,
            self.bytes_on_wire,
            self.files_compared,
            self.bytes_compared,
            self.differences,
        ]
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.bool(self.walk_complete);
        self.fields().iter().for_each(|field| encode_figure(*field, out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let walk_complete = reader.bool()?;
        let mut field = || decode_figure(reader);
        Ok(Self {
            walk_complete,
            files_found: field()?,
            bytes_found: field()?,
            files_copied: field()?,
            files_skipped: field()?,
            directories: field()?,
            symlinks: field()?,
            failed: field()?,
            left_out: field()?,
            filtered: field()?,
            bytes_written: field()?,
            bytes_skipped: field()?,
            frames_resent: field()?,
            streams: field()?,
            bytes_carried: field()?,
            bytes_on_wire: field()?,
            files_compared: field()?,
            bytes_compared: field()?,
            differences: field()?,
        })
    }

    /// Returns the sum of both ends' counters; each counts what the other does not. A peer's numbers may be arbitrary,
    /// so sums saturate.
    pub fn plus(&self, other: &Counters) -> Counters {
        Counters {
            walk_complete: self.walk_complete || other.walk_complete,
            files_found: self.files_found.saturating_add(other.files_found),
            bytes_found: self.bytes_found.saturating_add(other.bytes_found),
            files_copied: self.files_copied.saturating_add(other.files_copied),
            files_skipped: self.files_skipped.saturating_add(other.files_skipped),
            directories: self.directories.saturating_add(other.directories),
            symlinks: self.symlinks.saturating_add(other.symlinks),
            failed: self.failed.saturating_add(other.failed),
            left_out: self.left_out.saturating_add(other.left_out),
            filtered: self.filtered.saturating_add(other.filtered),
            bytes_written: self.bytes_written.saturating_add(other.bytes_written),
            bytes_skipped: self.bytes_skipped.saturating_add(other.bytes_skipped),
            frames_resent: self.frames_resent.saturating_add(other.frames_resent),
            streams: self.streams.max(other.streams),
            bytes_carried: self.bytes_carried.saturating_add(other.bytes_carried),
            bytes_on_wire: self.bytes_on_wire.saturating_add(other.bytes_on_wire),
            files_compared: self.files_compared.saturating_add(other.files_compared),
            bytes_compared: self.bytes_compared.saturating_add(other.bytes_compared),
            differences: self.differences.saturating_add(other.differences),
        }
    }
}

impl FinalReport {
    pub(super) fn encode(&self, out: &mut Writer) {
        self.counters.encode(out);
        let Self { cpu_us, system_us, peak_bytes, direct_bytes, cloned_bytes, .. } = *self;
        for figure in [cpu_us, system_us, peak_bytes, direct_bytes, cloned_bytes] {
            out.u64(figure.min(FIGURE_MAX));
        }
        out.bool(self.durable);
        self.read_back.encode(out);
        self.path.encode(out);
        self.compression.map_or(CompressionPolicy::Off, CompressionPolicy::Always).encode(out);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let counters = Counters::decode(reader)?;
        let mut figure = || bounded_figure(reader.u64()?);
        let (cpu_us, system_us, peak_bytes) = (figure()?, figure()?, figure()?);
        let (direct_bytes, cloned_bytes) = (figure()?, figure()?);
        let durable = reader.bool()?;
        let read_back = ReadBackBytes::decode(reader)?;
        let path = PathFigures::decode(reader)?;
        let compression = match CompressionPolicy::decode(reader)? {
            CompressionPolicy::Off => None,
            CompressionPolicy::Always(method) => Some(method),
            CompressionPolicy::Auto => return Err(ProtocolError::Invalid("a compression that was not chosen")),
        };
        Ok(Self {
            counters,
            cpu_us,
            system_us,
            peak_bytes,
            direct_bytes,
            cloned_bytes,
            durable,
            read_back,
            path,
            compression,
        })
    }
}

impl ReadBackBytes {
    fn encode(&self, out: &mut Writer) {
        [self.disk_bytes, self.cache_bytes, self.memory_bytes].iter().for_each(|bytes| encode_figure(*bytes, out));
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut figure = || decode_figure(reader);
        Ok(Self { disk_bytes: figure()?, cache_bytes: figure()?, memory_bytes: figure()? })
    }
}

impl PathFigures {
    pub(super) fn encode(&self, out: &mut Writer) {
        let Self { round_trip_us, segments, retransmitted, busy_us, receiver_limited_us, buffer_limited_us } = *self;
        for field in [round_trip_us, segments, retransmitted, busy_us, receiver_limited_us, buffer_limited_us] {
            encode_figure(field, out);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut figure = || decode_figure(reader);
        Ok(Self {
            round_trip_us: figure()?,
            segments: figure()?,
            retransmitted: figure()?,
            busy_us: figure()?,
            receiver_limited_us: figure()?,
            buffer_limited_us: figure()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_peer_cannot_overflow() {
        let most = Counters { bytes_written: u64::MAX, failed: 1, walk_complete: true, ..Counters::default() };
        let sum = most.plus(&most);
        assert_eq!((sum.bytes_written, sum.failed, sum.walk_complete), (u64::MAX, 2, true));
    }

    #[test]
    fn a_figure_beyond_its_limit_is_cut_by_its_writer_and_a_fault_to_its_reader() {
        let mut out = Writer::new();
        Counters { bytes_written: u64::MAX, ..Counters::default() }.encode(&mut out);
        let bytes = out.into_bytes();
        assert_eq!(Counters::decode(&mut Reader::new(&bytes)).map(|read| read.bytes_written), Ok(FIGURE_MAX));
        let mut out = Writer::new();
        out.bool(true).varint(FIGURE_MAX + 1).raw(&[0; 17]);
        let bytes = out.into_bytes();
        let fault = Err(ProtocolError::OverLimit("figures of a report"));
        assert_eq!(Counters::decode(&mut Reader::new(&bytes)), fault);
    }
}
