//! Resource use of a worker: of its threads, CPUs, disks and sockets.
//!
//! All numbers count from the start of the copy. So the difference of two reports describes the interval, and a missing
//! report is no loss. [`crate::diagnose`] interprets them.

use crate::codec::wire_struct;
use crate::field_codecs::{EachOf, Varint};

/// Defines a structure of counters with differences and sums.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident,)* }) => {
        wire_struct! {
            $(#[$about])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
            pub struct $name { $($(#[$what])* pub $field: u64 as Varint,)* }
        }

        impl $name {
            /// Returns the increase since `earlier`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }

            /// Adds another's counters. A peer's numbers may be arbitrary, so sums saturate.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// Returns the name and value of each counter.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }
        }
    };
}

/// Stage of a thread. Stages of stream threads come first, then those of other threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Source: waits for work.
    Idle,
    /// Source: the stream is not in use. Target: it waits for another run's lock, or
    /// for another stream to open the file.
    Rest,
    /// Source: waits for the rate limit.
    Pace,
    /// Source: waits for input from a pipe.
    ReadPipe,
    /// Source: reads files.
    Read,
    /// Source: opens files and reads their metadata.
    Open,
    /// Source: all other time, which is computation: hashes, compression, encryption.
    Prepare,
    /// Source: sends to the socket.
    Send,
    /// Target: waits for data from the socket.
    Receive,
    /// Target: all other time, which is computation: decryption, checks.
    Check,
    /// Target: writes files.
    Write,
    /// Target: waits while another stream writes to the same file.
    Turn,
    /// Target: creates files, sets metadata and renames.
    Create,
    /// Target: waits until enough written data is on disk.
    Room,
    /// Target: writes into a pipe.
    WritePipe,
    /// Walk: lists directories and reads metadata.
    Walk,
    /// Walk: waits, since enough entries are on offer.
    WalkWait,
    /// Target: checks existing entries and creates directories.
    Examine,
    /// Target: waits for offers, or for another run's lock.
    ExamineWait,
    /// Target: syncs written files to disk.
    Sync,
    /// Target: waits for files to sync.
    SyncWait,
}

impl Stage {
    /// All stages by their numbers.
    pub const ALL: [Self; 21] = [
        Self::Idle,
        Self::Rest,
        Self::Pace,
        Self::ReadPipe,
        Self::Read,
        Self::Open,
        Self::Prepare,
        Self::Send,
        Self::Receive,
        Self::Check,
        Self::Write,
        Self::Turn,
        Self::Create,
        Self::Room,
        Self::WritePipe,
        Self::Walk,
        Self::WalkWait,
        Self::Examine,
        Self::ExamineWait,
        Self::Sync,
        Self::SyncWait,
    ];

    /// Returns the machine-readable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Rest => "rest",
            Self::Pace => "pace",
            Self::ReadPipe => "read_pipe",
            Self::Read => "read",
            Self::Open => "open",
            Self::Prepare => "prepare",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Check => "check",
            Self::Write => "write",
            Self::Turn => "turn",
            Self::Create => "create",
            Self::Room => "room",
            Self::WritePipe => "write_pipe",
            Self::Walk => "walk",
            Self::WalkWait => "walk_wait",
            Self::Examine => "examine",
            Self::ExamineWait => "examine_wait",
            Self::Sync => "sync",
            Self::SyncWait => "sync_wait",
        }
    }

    /// Whether this is a stage of a stream thread.
    pub fn is_of_stream(self) -> bool {
        (self as usize) < Self::Walk as usize
    }

    /// Whether this is a stage of a stream thread at the source.
    pub fn is_of_source(self) -> bool {
        (self as usize) < Self::Receive as usize
    }
}

counters! {
    /// Time in a stage, of all threads together.
    Spent {
        /// Wall-clock time, in microseconds.
        wall_us,
        /// The part of it with CPU samples, in microseconds.
        sampled_us,
        /// Computing time within the sampled part, in microseconds. It includes time runnable without a CPU.
        computed_us,
    }
}

counters! {
    /// The CPUs available to a worker.
    Processors {
        /// Time of all CPUs, idle or not, in microseconds.
        all_us,
        /// The part of it that was not idle; time stolen by a hypervisor is not idle.
        busy_us,
        /// The part of it in softirq: packets and the like.
        interrupts_us,
        /// Softirq time of the CPU with most of it, from sample to sample.
        top_interrupts_us,
        /// Busy time of that CPU.
        top_busy_us,
        /// Sampled time of that CPU.
        top_all_us,
        /// CPU time of the worker itself.
        own_us,
        /// Periods of the nearest CPU quota of the worker's control group.
        quota_periods,
        /// Periods with an exhausted quota.
        quota_spent,
        /// Time with tasks waiting for a CPU (PSI, `some`), in microseconds.
        cpu_pressure_us,
        /// The same for memory.
        memory_pressure_us,
        /// The same for disk I/O.
        io_pressure_us,
    }
}

counters! {
    /// The disk of an end's files, where the system reports one.
    Disk {
        /// Time with requests in flight, in microseconds.
        busy_us,
        /// Total time of all requests, including queueing, in microseconds.
        queue_us,
        /// Bytes read.
        read_bytes,
        /// Bytes written.
        written_bytes,
    }
}

counters! {
    /// The network interface of the streams.
    Traffic {
        /// Bytes received.
        received_bytes,
        /// Bytes sent.
        sent_bytes,
        /// Packets dropped or damaged at this interface.
        dropped,
    }
}

counters! {
    /// Kernel statistics of all streams' sockets (tcp(7), `TCP_INFO`), summed over all samples.
    Sockets {
        /// Number of samples of a socket that had sent data since the previous one.
        looks,
        /// Sum of round-trip times, in microseconds.
        rtt_us,
        /// Sum of the kernel's minimum round-trip times, in microseconds.
        rtt_min_us,
        /// Sum of congestion windows in bytes.
        window_bytes,
        /// Sum of receive windows in bytes.
        receiver_bytes,
        /// Sum of send buffer sizes in bytes.
        buffer_bytes,
        /// Sum of bytes in flight.
        under_way_bytes,
        /// Sum of the kernel's delivery rates in bytes per second.
        delivery_bytes_per_s,
        /// Bytes acknowledged.
        acknowledged_bytes,
        /// Segments sent with data, retransmits included.
        segments,
        /// Retransmitted segments.
        retransmitted,
        /// Segments received out of order.
        reordered,
        /// Time with data to send, in microseconds, of all streams together.
        busy_us,
        /// The part of it with a full receive window.
        receiver_limited_us,
        /// The part of it with too small a send buffer.
        buffer_limited_us,
        /// Number of intervals with a sample of the total rate.
        spans,
        /// Sum of these rates in KiB per second.
        rate_kib,
        /// Sum of their squares.
        rate_kib_squared,
    }
}

wire_struct! {
    /// Present values, as opposed to counters.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct CurrentMetrics {
        /// Number of stream threads.
        pub streams: u16,
        /// Number of usable CPUs.
        pub cores: u16,
        /// Nearest CPU quota of its control group, in thousandths of a CPU; 0 for none.
        pub quota_permille: u32,
        /// Speed of the streams' interface in Mbit/s; 0 where it is unknown.
        pub mbit_per_s: u32,
        /// Whether the congestion control does not treat loss as congestion.
        pub bears_loss: bool,
    }
}

wire_struct! {
    /// Resource use of a worker.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ResourceMetrics {
        /// Time since the start of the copy, in microseconds.
        pub elapsed_us: u64 as Varint,
        /// Time in each stage, by the numbers of [`Stage::ALL`].
        pub stages: [Spent; Stage::ALL.len()] as EachOf,
        /// CPUs.
        pub processors: Processors,
        /// The disks of reads and of writes. Only a worker of both ends uses both.
        pub disks: [Disk; 2] as EachOf,
        /// Interface of its streams.
        pub traffic: Traffic,
        /// Sockets; only the source reports them.
        pub sockets: Sockets,
        /// Present values.
        pub present: CurrentMetrics,
    }
}

impl ResourceMetrics {
    /// Returns the time in a stage.
    pub fn spent(&self, stage: Stage) -> &Spent {
        &self.stages[stage as usize]
    }

    /// Returns the increase since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut stages = self.stages;
        stages.iter_mut().zip(&earlier.stages).for_each(|(stage, earlier)| *stage = stage.since(earlier));
        let [read, written] = &self.disks;
        Self {
            elapsed_us: self.elapsed_us.saturating_sub(earlier.elapsed_us),
            stages,
            processors: self.processors.since(&earlier.processors),
            disks: [read.since(&earlier.disks[0]), written.since(&earlier.disks[1])],
            traffic: self.traffic.since(&earlier.traffic),
            sockets: self.sockets.since(&earlier.sockets),
            present: self.present,
        }
    }

    /// Adds the metrics of another interval.
    pub fn add(&mut self, other: &Self) {
        self.elapsed_us = self.elapsed_us.saturating_add(other.elapsed_us);
        self.stages.iter_mut().zip(&other.stages).for_each(|(stage, other)| stage.add(other));
        self.processors.add(&other.processors);
        self.disks.iter_mut().zip(&other.disks).for_each(|(disk, other)| disk.add(other));
        self.traffic.add(&other.traffic);
        self.sockets.add(&other.sockets);
    }
}

counters! {
    /// Statistics of one stream, from the reporting end. Equal numbers at both ends mean the same stream.
    StreamFigures {
        /// Number of the stream.
        stream,
        /// Wall-clock time, in microseconds.
        wall_us,
        /// CPU time of its thread, in microseconds.
        cpu_us,
        /// Time spent waiting for work or records, in microseconds.
        idle_us,
        /// Time in calls that read or write files or pipes, in microseconds.
        storage_us,
        /// Time in calls that send, in microseconds.
        send_us,
        /// Bytes acknowledged. Only the source reports this and all numbers below.
        acknowledged_bytes,
        /// Final round-trip time, in microseconds.
        rtt_us,
        /// Final congestion window in bytes.
        window_bytes,
        /// Final receive window in bytes.
        receiver_bytes,
        /// Size of the send buffer in bytes.
        buffer_bytes,
        /// Largest effective window seen, in bytes: the smaller one of congestion window and receive window.
        effective_window_bytes,
        /// Segments sent with data.
        segments,
        /// Retransmitted segments.
        retransmitted,
        /// Segments received out of order.
        reordered,
        /// Time with data to send, in microseconds.
        busy_us,
        /// The part of it with a full receive window.
        receiver_limited_us,
        /// The part of it with too small a send buffer.
        buffer_limited_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_the_numbers_of_their_places() {
        assert!(Stage::ALL.iter().enumerate().all(|(number, stage)| *stage as usize == number));
        assert!(Stage::WritePipe.is_of_stream() && !Stage::Walk.is_of_stream());
        assert!(Stage::Send.is_of_source() && !Stage::Receive.is_of_source());
    }

    #[test]
    fn the_difference_of_two_reports_covers_the_time_between() {
        let mut earlier = ResourceMetrics { elapsed_us: 10, ..ResourceMetrics::default() };
        earlier.stages[Stage::Read as usize].wall_us = 7;
        let mut later = ResourceMetrics { elapsed_us: 30, ..earlier };
        later.stages[Stage::Read as usize].wall_us = 9;
        later.present.cores = 2;
        let between = later.since(&earlier);
        assert_eq!((between.elapsed_us, between.spent(Stage::Read).wall_us, between.present.cores), (20, 2, 2));
        assert_eq!(earlier.since(&later).elapsed_us, 0, "a peer may say anything");
    }
}
