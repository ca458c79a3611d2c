//! The cases, the command line of each tool, and the targets.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::hosts::SyncHosts;
use super::{SyncTool, twoway};

/// The changes since the last copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncCase {
    /// None, in a million files.
    Unchanged,
    /// One file of 50,000 is new.
    Added,
    /// Some pages of a database.
    Pages,
    /// A few bytes near the beginning of a large file.
    Insert,
    /// Some lines of a sorted list.
    Lines,
    /// The name of a directory.
    Renamed,
    /// All of it is new, and most of it is a hole.
    Sparse,
    /// Files at both sides.
    Twoway,
    /// Some pages of a database at one side of a two-way synchronisation.
    TwowayPages,
}

/// Targets, as fractions of the first peer's figures.
#[derive(Debug, Clone, Copy, Default)]
pub struct SyncAim {
    /// Of its time.
    pub time: Option<f64>,
    /// Of its bytes on the cable.
    pub bytes: Option<f64>,
    /// Most bytes of memory at either end.
    pub peak_bytes: Option<u64>,
    /// Most bytes of the records that haul sends.
    pub sent_max: Option<u64>,
}

impl SyncCase {
    /// In the order of the tables.
    pub const ALL: [Self; 9] = [
        Self::Unchanged,
        Self::Added,
        Self::Pages,
        Self::Insert,
        Self::Lines,
        Self::Renamed,
        Self::Sparse,
        Self::Twoway,
        Self::TwowayPages,
    ];

    /// As it is named on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Added => "added",
            Self::Pages => "pages",
            Self::Insert => "insert",
            Self::Lines => "lines",
            Self::Renamed => "renamed",
            Self::Sparse => "sparse",
            Self::Twoway => "twoway",
            Self::TwowayPages => "twoway-pages",
        }
    }

    /// A description.
    pub fn about(self) -> &'static str {
        match self {
            Self::Unchanged => "nothing changed: 1,000,000 files",
            Self::Added => "1 file of 50,000 added",
            Self::Pages => "a database of 8 GiB on disk, 1 % of its pages of 4 KiB changed in place",
            Self::Insert => "a file of 1 GiB, 1 KiB inserted near its beginning",
            Self::Lines => "a list of paths of 14 MiB, like that of locate, 175 of them added",
            Self::Renamed => "a directory renamed: 2,000 files of 4 KiB to 1 MiB",
            Self::Sparse => "a file of 4 GiB that has 100 MiB of data",
            Self::Twoway => "two-way: 50,000 files of 4 KiB, 100 changes at each side",
            Self::TwowayPages => "two-way: a database of 2 GiB, 1 % of its pages of 4 KiB changed at one side",
        }
    }

    /// The tools: haul first, then its reference peer.
    pub fn tools(self) -> &'static [SyncTool] {
        match self {
            Self::Unchanged | Self::Added => &[SyncTool::Haul, SyncTool::RsyncSsh, SyncTool::RsyncDaemon],
            Self::Pages | Self::Insert | Self::Lines | Self::Renamed => &[SyncTool::Haul, SyncTool::RsyncSsh],
            Self::Sparse => &[SyncTool::Haul, SyncTool::Cp],
            Self::Twoway | Self::TwowayPages => &[SyncTool::Haul, SyncTool::Unison, SyncTool::RcloneBisync],
        }
    }

    /// The targets.
    pub fn aim(self) -> SyncAim {
        let none = SyncAim::default();
        match self {
            Self::Unchanged => SyncAim { time: Some(0.4), peak_bytes: Some(256 << 20), ..none },
            Self::Added => SyncAim { time: Some(0.5), bytes: Some(1.0), ..none },
            Self::Pages => SyncAim { time: Some(0.25), bytes: Some(1.2), ..none },
            Self::Insert => SyncAim { time: Some(0.5), bytes: Some(1.5), ..none },
            Self::Lines => SyncAim { bytes: Some(0.5), ..none },
            Self::Renamed => SyncAim { bytes: Some(0.01), ..none },
            Self::Sparse => SyncAim { sent_max: Some(101 << 20), ..none },
            Self::Twoway | Self::TwowayPages => SyncAim { time: Some(1.0), ..none },
        }
    }

    /// Whether each tool has a copy of its own, since it changes that.
    pub fn has_own_copies(self) -> bool {
        !matches!(self, Self::Unchanged | Self::Added)
    }

    /// Whether both sides may have changed.
    pub fn is_twoway(self) -> bool {
        matches!(self, Self::Twoway | Self::TwowayPages)
    }

    /// A tool's command to make the contents of the directory `target` equal to those of `source`.
    pub fn command(self, hosts: &SyncHosts, tool: SyncTool, source: &Path, target: &Path) -> Result<Command> {
        if self.is_twoway() {
            return twoway::command(hosts, tool, source, target);
        }
        let contents = || {
            let mut path = source.as_os_str().to_owned();
            path.push("/");
            path
        };
        let is_tree = self.is_tree();
        let mut command = match tool {
            SyncTool::Haul => hosts.haul("sync"),
            _ => Command::new(tool.program()),
        };
        match (tool, self) {
            (SyncTool::Haul, Self::Pages) => command.arg("--inplace"),
            (SyncTool::Haul, Self::Renamed) => command.args(["--delete", "--detect-renames"]),
            (SyncTool::Haul, _) => &mut command,
            (SyncTool::Cp, _) => command.arg("--sparse=always"),
            (_, Self::Pages) => command.args(["-a", "--inplace", "--no-whole-file"]),
            (_, Self::Renamed) => command.args(["-a", "--delete"]),
            (_, _) => command.arg("-a"),
        };
        if tool == SyncTool::RsyncSsh {
            command.args(["-e", &hosts.pair.ssh()]);
        }
        let target = match tool {
            SyncTool::RsyncDaemon => hosts.module(target)?.into(),
            SyncTool::Cp => target.as_os_str().to_owned(),
            _ => hosts.pair.location(target),
        };
        command.arg(if is_tree { contents() } else { source.as_os_str().to_owned() }).arg(target);
        Ok(hosts.pair.place(&command))
    }

    /// Whether it is about a directory.
    pub fn is_tree(self) -> bool {
        matches!(self, Self::Unchanged | Self::Added | Self::Renamed)
    }
}
