//! What a worker says of where its time goes: its threads', its machine's, its disks' and its sockets'. All figures
//! count from the job's begin, so that what happened between two reports is their difference, and a report that is not
//! sent is no loss. What they mean together is [`crate::diagnose`]'s to say.

use crate::encoding::{Decoded, Reader, Writer};

/// A structure of counters, of which two can be held against each other.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name { $($(#[$what])* pub $field: u64,)* }

        impl $name {
            /// What was added since `earlier`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }

            /// Adds another's. What a peer says may be anything, so that sums stop at the largest number.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// Each counter's name, and what it is.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }

            fn encode(&self, out: &mut Writer) {
                $(out.varint(self.$field);)*
            }

            fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
                Ok(Self { $($field: reader.varint()?,)* })
            }
        }
    };
}

/// What a thread is at. Those of a stream's thread come first, then those of the threads beside the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The source: there is nothing to be sent.
    Idle,
    /// The source: the stream is not in use.
    Rest,
    /// The source: the set rate lets nothing go.
    Pace,
    /// The source: waits for what comes out of a pipe.
    ReadPipe,
    /// The source: calls that read files.
    Read,
    /// The source: opens files and looks at them.
    Open,
    /// The source: everything else, which is computing: hashes, compression, seals.
    Prepare,
    /// The source: calls that send.
    Send,
    /// The target: waits for what is sent.
    Receive,
    /// The target: everything else, which is computing: opening seals, checking.
    Check,
    /// The target: calls that write files.
    Write,
    /// The target: another stream writes to the same file.
    Turn,
    /// The target: makes files, and gives them metadata and names.
    Create,
    /// The target: what is written already has to reach the disk first.
    Room,
    /// The target: writes into a pipe.
    WritePipe,
    /// The walk: looks at what there is.
    Walk,
    /// The walk: enough is on offer.
    WalkWait,
    /// The target: looks at what is there, makes directories.
    Examine,
    /// The target: nothing is offered.
    ExamineWait,
    /// The target: waits for the disk to have what was written.
    Sync,
    /// The target: nothing has to be put on the disk.
    SyncWait,
}

impl Stage {
    /// All of them, by their numbers.
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

    /// What programs know it by.
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

    /// Whether it is one of a stream's thread, and not of one beside the streams.
    pub fn is_of_stream(self) -> bool {
        (self as usize) < Self::Walk as usize
    }

    /// Whether it is one of a stream's thread at the source.
    pub fn is_of_source(self) -> bool {
        (self as usize) < Self::Receive as usize
    }
}

counters! {
    /// Time in a stage, of all threads together.
    Spent {
        /// On the clock, in microseconds.
        wall_us,
        /// That part of it of which it is known whether the thread computed, in microseconds.
        looked_us,
        /// How long it did in that part, in microseconds, or would have if others had not had its processor.
        computed_us,
    }
}

counters! {
    /// The processors that a worker may use.
    Processors {
        /// Time of all of them, idle or not, in microseconds.
        all_us,
        /// That part of it in which they were not idle; what a hypervisor kept for others is not idle.
        busy_us,
        /// That part of it in which the kernel handled packets and the like (softirq).
        interrupts_us,
        /// The same of whichever processor had most of it, from look to look.
        top_interrupts_us,
        /// How long that one was not idle.
        top_busy_us,
        /// How long that was looked at.
        top_all_us,
        /// CPU time of the worker itself.
        own_us,
        /// Periods of the nearest quota of the worker's control group.
        quota_periods,
        /// Those in which it was used up.
        quota_spent,
        /// Time in which something waited for a processor, memory, or a disk (PSI, `some`), in microseconds.
        cpu_pressure_us,
        /// The same for memory.
        memory_pressure_us,
        /// The same for disks.
        io_pressure_us,
    }
}

counters! {
    /// The disk behind an end's files, where the system knows one.
    Disk {
        /// Time with something under way, in microseconds.
        busy_us,
        /// Time that requests took, waiting included, of all together, in microseconds.
        queue_us,
        /// Bytes read.
        read_bytes,
        /// Bytes written.
        written_bytes,
    }
}

counters! {
    /// The interface that the streams use.
    Traffic {
        /// Bytes received.
        received_bytes,
        /// Bytes sent.
        sent_bytes,
        /// Packets that were dropped or damaged here.
        dropped,
    }
}

counters! {
    /// What the kernel says of all streams' sockets (tcp(7), `TCP_INFO`), added up over all looks at them.
    Sockets {
        /// Looks at a socket that had sent something since the one before.
        looks,
        /// Round-trip times, in microseconds, over these looks.
        rtt_us,
        /// The shortest round-trip times that the kernel remembers, in microseconds, over these looks.
        rtt_min_us,
        /// Bytes that the congestion window allows under way, over these looks.
        window_bytes,
        /// Bytes that the receiver has room for, over these looks.
        receiver_bytes,
        /// Bytes that the send buffer may hold, over these looks.
        buffer_bytes,
        /// Bytes that were under way, over these looks.
        under_way_bytes,
        /// Rates at which the kernel has them delivered, bytes a second, over these looks.
        delivery_bytes_per_s,
        /// Bytes that were acknowledged.
        acknowledged_bytes,
        /// Segments with data sent, those that were sent again included.
        segments,
        /// Segments sent again.
        retransmitted,
        /// Segments that came out of order.
        reordered,
        /// Time with something to send, in microseconds, of all streams together.
        busy_us,
        /// That part of it in which the receiver's window was full.
        receiver_limited_us,
        /// That part of it in which the sender's buffer was too small.
        buffer_limited_us,
        /// Spans of time over which all streams' rate was looked at.
        spans,
        /// These rates, in KiB a second, added up.
        rate_kib,
        /// Their squares, added up.
        rate_kib_squared,
    }
}

/// What is so now, and is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CurrentMetrics {
    /// Threads of streams.
    pub streams: u16,
    /// Processors that the worker may use.
    pub cores: u16,
    /// Of the nearest quota of its control group, in thousandths of a processor; 0 where there is none.
    pub quota_permille: u32,
    /// Speed of the interface that the streams use, in Mbit/s; 0 where the system does not say.
    pub mbit_per_s: u32,
    /// Whether the streams' congestion control takes no loss for congestion.
    pub bears_loss: bool,
}

/// Where a worker's time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceMetrics {
    /// Since the job's begin, in microseconds.
    pub elapsed_us: u64,
    /// By the numbers of [`Stage::ALL`].
    pub stages: [Spent; Stage::ALL.len()],
    /// Its processors.
    pub processors: Processors,
    /// The disks behind what is read and what is written: one of them, unless it is both ends.
    pub disks: [Disk; 2],
    /// The interface that its streams use.
    pub traffic: Traffic,
    /// Its sockets: the source's to say.
    pub sockets: Sockets,
    /// What is so now.
    pub present: CurrentMetrics,
}

impl ResourceMetrics {
    /// Time in a stage.
    pub fn spent(&self, stage: Stage) -> &Spent {
        &self.stages[stage as usize]
    }

    /// What happened since `earlier`.
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

    /// Adds what happened at another time.
    pub fn add(&mut self, other: &Self) {
        self.elapsed_us = self.elapsed_us.saturating_add(other.elapsed_us);
        self.stages.iter_mut().zip(&other.stages).for_each(|(stage, other)| stage.add(other));
        self.processors.add(&other.processors);
        self.disks.iter_mut().zip(&other.disks).for_each(|(disk, other)| disk.add(other));
        self.traffic.add(&other.traffic);
        self.sockets.add(&other.sockets);
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.varint(self.elapsed_us);
        self.stages.iter().for_each(|spent| spent.encode(out));
        self.processors.encode(out);
        self.disks.iter().for_each(|disk| disk.encode(out));
        self.traffic.encode(out);
        self.sockets.encode(out);
        let CurrentMetrics { streams, cores, quota_permille, mbit_per_s, bears_loss } = self.present;
        out.u16(streams).u16(cores).u32(quota_permille).u32(mbit_per_s).bool(bears_loss);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let elapsed_us = reader.varint()?;
        let mut stages = [Spent::default(); Stage::ALL.len()];
        for stage in &mut stages {
            *stage = Spent::decode(reader)?;
        }
        Ok(Self {
            elapsed_us,
            stages,
            processors: Processors::decode(reader)?,
            disks: [Disk::decode(reader)?, Disk::decode(reader)?],
            traffic: Traffic::decode(reader)?,
            sockets: Sockets::decode(reader)?,
            present: CurrentMetrics {
                streams: reader.u16()?,
                cores: reader.u16()?,
                quota_permille: reader.u32()?,
                mbit_per_s: reader.u32()?,
                bears_loss: reader.bool()?,
            },
        })
    }
}

counters! {
    /// What one stream did, at the end that says so. Those of one number at both ends are the same stream.
    StreamFigures {
        /// Its number.
        stream,
        /// Time on the clock, in microseconds.
        wall_us,
        /// CPU time of its thread, in microseconds.
        cpu_us,
        /// Time that it waited for work or for records, in microseconds.
        idle_us,
        /// Time in calls that read or write files or pipes, in microseconds.
        storage_us,
        /// Time in calls that send, in microseconds.
        send_us,
        /// Bytes that were acknowledged: the source's to say, like all below.
        acknowledged_bytes,
        /// The round-trip time at the end, in microseconds.
        rtt_us,
        /// Bytes that its congestion window allows under way, at the end.
        window_bytes,
        /// Bytes that the receiver has room for, at the end.
        receiver_bytes,
        /// Bytes that its send buffer holds at the most.
        buffer_bytes,
        /// Segments with data sent.
        segments,
        /// Segments sent again.
        retransmitted,
        /// Segments that came out of order.
        reordered,
        /// Time with something to send, in microseconds.
        busy_us,
        /// That part of it in which the receiver's window was full.
        receiver_limited_us,
        /// That part of it in which the sender's buffer was too small.
        buffer_limited_us,
    }
}

impl StreamFigures {
    pub(super) fn encode_all(all: &[Self], out: &mut Writer) {
        out.count(all.len());
        all.iter().for_each(|figures| figures.encode(out));
    }

    pub(super) fn decode_all(reader: &mut Reader<'_>) -> Decoded<Vec<Self>> {
        let count = reader.count(crate::limits::STREAM_FIGURES_MAX, "figures of streams")?;
        (0..count).map(|_| Self::decode(reader)).collect()
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
    fn what_happened_between_two_reports_is_their_difference() {
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
