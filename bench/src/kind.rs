//! Tables of the benchmark: names, and places of their source and target data. `workload` has the data itself.

use anyhow::{Context, Result};

/// The workloads: one table each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadKind {
    /// One file of 4 GiB.
    Big,
    /// The same file, to `/dev/null` at the target.
    Null,
    /// 50,000 files of 1 to 16 KiB in 500 directories.
    Small,
    /// 200 files of 10 KiB to 64 MiB.
    Mixed,
    /// One file of one byte: the cost of starting.
    Byte,
    /// The big file within this machine.
    LocalBig,
    /// The small files within this machine.
    LocalSmall,
    /// The big file from a disk, not in the page cache, to a disk, and synced.
    Disk,
    /// Empty files, many and very many.
    LinearEmpty,
    /// Bytes that come from nowhere and go nowhere, many and very many.
    LinearNull,
    /// A file from disk to disk, large and very large.
    LinearDisk,
    /// One stream, to `/dev/null`, on a CPU without its newer instructions.
    OldCpu,
    /// The big file through 1 to 16 streams.
    CurveStreams,
    /// 1 to 1,000,000 files of 1 KiB.
    CurveFiles,
    /// Files of 1 MiB to 4 GiB.
    CurveBytes,
    /// 1 MiB to 16 GiB from nowhere to nowhere.
    CurveNull,
}

/// Where a workload lies and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadPlace {
    /// From the directory of `--dir` to the same, through a host.
    Memory,
    /// From the directory of `--dir` to `/dev/null`, through a host.
    Null,
    /// From the directory of `--dir` to the same, without a host.
    Local,
    /// From the directory of `--disk-dir` to the same, through a host; cold, and synced.
    Disk,
}

/// The default tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindRequest {
    ByDefault,
    ByName,
}

impl WorkloadKind {
    /// In running order.
    pub const ALL: [Self; 16] = [
        Self::Big,
        Self::Null,
        Self::Small,
        Self::Mixed,
        Self::Byte,
        Self::LocalBig,
        Self::LocalSmall,
        Self::Disk,
        Self::LinearEmpty,
        Self::LinearNull,
        Self::LinearDisk,
        Self::OldCpu,
        Self::CurveStreams,
        Self::CurveFiles,
        Self::CurveBytes,
        Self::CurveNull,
    ];

    fn row(self) -> (&'static str, WorkloadPlace, KindRequest, &'static str) {
        use KindRequest::{ByDefault, ByName};
        match self {
            Self::Big => ("big", WorkloadPlace::Memory, ByDefault, "one incompressible file"),
            Self::Null => ("null", WorkloadPlace::Null, ByDefault, "one incompressible file, to /dev/null"),
            Self::Small => ("small", WorkloadPlace::Memory, ByDefault, "many files of 1 to 16 KiB"),
            Self::Mixed => ("mixed", WorkloadPlace::Memory, ByDefault, "files of 10 KiB to 64 MiB"),
            Self::Byte => ("byte", WorkloadPlace::Memory, ByDefault, "one byte: what starting costs"),
            Self::LocalBig => {
                ("local-big", WorkloadPlace::Local, ByDefault, "one incompressible file, within this machine")
            }
            Self::LocalSmall => {
                ("local-small", WorkloadPlace::Local, ByDefault, "many files of 1 to 16 KiB, within this machine")
            }
            Self::Disk => {
                ("disk", WorkloadPlace::Disk, ByDefault, "one incompressible file, disk to disk, cold, with sync")
            }
            Self::LinearEmpty => ("linear-empty", WorkloadPlace::Memory, ByDefault, "empty files"),
            Self::LinearNull => ("linear-null", WorkloadPlace::Null, ByDefault, "zeros from null:SIZE to /dev/null"),
            Self::LinearDisk => {
                ("linear-disk", WorkloadPlace::Disk, ByDefault, "one file, disk to disk, cold, with sync")
            }
            Self::OldCpu => ("old-cpu", WorkloadPlace::Null, ByName, "one stream to /dev/null, old instructions only"),
            Self::CurveStreams => {
                ("curve-streams", WorkloadPlace::Memory, ByName, "one incompressible file, by streams")
            }
            Self::CurveFiles => ("curve-files", WorkloadPlace::Memory, ByName, "files of 1 KiB, by their number"),
            Self::CurveBytes => ("curve-bytes", WorkloadPlace::Memory, ByName, "one incompressible file, by its size"),
            Self::CurveNull => {
                ("curve-null", WorkloadPlace::Null, ByName, "zeros from null:SIZE to /dev/null, by size")
            }
        }
    }

    /// As on the command line.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Where it lies and goes.
    pub fn place(self) -> WorkloadPlace {
        self.row().1
    }

    /// For a heading.
    pub fn title(self) -> String {
        format!("{}: {}", self.name(), self.row().3)
    }

    /// Those of a name, or of a family (`local`, `linear`, `curve`).
    pub fn named(name: &str) -> Result<Vec<Self>> {
        let found: Vec<Self> = Self::ALL.into_iter().filter(|kind| is_called(kind.name(), name)).collect();
        let names = || Self::ALL.map(Self::name).join(", ");
        (!found.is_empty())
            .then_some(found)
            .with_context(|| format!("there is no workload {name}; there are {}", names()))
    }

    /// Those that are run when none is named.
    pub fn usual() -> Vec<Self> {
        Self::ALL.into_iter().filter(|kind| kind.row().2 == KindRequest::ByDefault).collect()
    }

    /// The number of rounds for `runs`: runs of milliseconds are repeated more often.
    pub fn rounds(self, runs: u32) -> u32 {
        const ROUNDS_OF_BYTE_MIN: u32 = 10;
        if self == Self::Byte { runs.max(ROUNDS_OF_BYTE_MIN) } else { runs }
    }
}

/// Whether `name` selects `whole`: its own name, or that of its family.
pub fn is_called(whole: &str, name: &str) -> bool {
    whole == name || (!name.is_empty() && whole.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_the_command_line() {
        for kind in WorkloadKind::ALL {
            assert_eq!(WorkloadKind::named(kind.name()).expect("its own name"), [kind]);
        }
        assert_eq!(WorkloadKind::named("local").expect("a family"), [WorkloadKind::LocalBig, WorkloadKind::LocalSmall]);
        assert_eq!(WorkloadKind::named("linear").expect("a family").len(), 3);
        assert!(WorkloadKind::named("").is_err() && WorkloadKind::named("lin").is_err());
        assert!(
            !WorkloadKind::usual().contains(&WorkloadKind::CurveFiles)
                && WorkloadKind::usual().contains(&WorkloadKind::Disk)
        );
    }
}
