//! The setting between two ends of a copy, and its data: plain data, without a system call.

use std::time::Duration;

use haul_lab::{Slowness, WanSettings};

/// An end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SceneEnd {
    /// The reading end.
    Source,
    /// The writing end.
    Target,
}

/// Who starts the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartedBy {
    /// The source.
    Push,
    /// The target.
    Pull,
}

impl StartedBy {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Push, Self::Pull];

    /// As the table shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
        }
    }

    /// The end that starts the copy.
    pub fn near(self) -> SceneEnd {
        match self {
            Self::Push => SceneEnd::Source,
            Self::Pull => SceneEnd::Target,
        }
    }
}

/// An end's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Files in memory.
    Memory,
    /// Files on this machine's own disk.
    Disk,
    /// Files on a disk, or a file server, that is as slow as this.
    Slow(Slowness),
    /// Files on a block device that carries so many bytes a second past the page cache.
    Device {
        /// Bytes a second.
        bytes_per_s: u64,
    },
    /// A program that rests after each block.
    Program {
        /// Bytes that it reads or writes before it rests.
        block: u64,
        /// How long it rests.
        rest: Duration,
    },
    /// `null:`.
    Nothing,
}

/// The network between the ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Network {
    /// This machine's loopback.
    Loopback,
    /// A cable between two hosts, without a limit.
    Cable,
    /// A cable that carries this much.
    Slow {
        /// Megabits a second.
        mbit_per_s: u32,
    },
    /// A cable, and hosts that drop traffic above this rate.
    Policed {
        /// KiB a second.
        kib_per_s: u64,
    },
    /// A cable, and at the receiving host one processor that has so much to do for each packet.
    Filtered {
        /// Rules of a filter that a packet has to pass.
        rules: u32,
    },
    /// A long link.
    Wan(WanSettings),
}

/// The data to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SceneData {
    /// One file.
    File {
        /// Its size.
        bytes: u64,
    },
    /// One file that can be compressed to about half of its size.
    Text {
        /// Its size.
        bytes: u64,
    },
    /// Many of one size.
    Files {
        /// How many.
        count: u32,
        /// The size of each.
        bytes: u64,
    },
}

/// A socket buffer's greatest size, at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The end.
    pub end: SceneEnd,
    /// The most that it becomes.
    pub bytes: u64,
}

/// All settings. The default has no limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// The network between the ends.
    pub network: Network,
    /// The source's storage.
    pub source: Store,
    /// The target's storage.
    pub target: Store,
    /// The data to copy.
    pub data: SceneData,
    /// An end that has so many hundredths of a processor.
    pub quota: Option<(SceneEnd, u64)>,
    /// An end with small socket buffers: the source's send buffers or the target's receive buffers.
    pub window: Option<Window>,
    /// Options of haul.
    pub options: Vec<String>,
    /// Whether other programs take all the processor time that they get.
    pub is_busy: bool,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            network: Network::Cable,
            source: Store::Memory,
            target: Store::Memory,
            data: SceneData::File { bytes: 1 << 20 },
            quota: None,
            window: None,
            options: Vec::new(),
            is_busy: false,
        }
    }
}

impl Scene {
    /// One end's store.
    pub fn store(&self, end: SceneEnd) -> Store {
        match end {
            SceneEnd::Source => self.source,
            SceneEnd::Target => self.target,
        }
    }

    /// The same with one end's store replaced.
    pub fn with(mut self, end: SceneEnd, store: Store) -> Self {
        match end {
            SceneEnd::Source => self.source = store,
            SceneEnd::Target => self.target = store,
        }
        self
    }

    /// The same on hosts that are busy with other programs.
    pub fn on_busy_hosts(self) -> Self {
        Self { is_busy: true, ..self }
    }

    /// Bytes of all that is copied.
    pub fn bytes(&self) -> u64 {
        match self.data {
            SceneData::File { bytes } | SceneData::Text { bytes } => bytes,
            SceneData::Files { count, bytes } => u64::from(count) * bytes,
        }
    }
}
