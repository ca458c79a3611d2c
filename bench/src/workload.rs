//! The data to copy: contents, names, and its creation. `kind` has the tables.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use haul_lab::TestTree;

use crate::kind::{WorkloadKind, WorkloadPlace};

/// One seed for all: every machine copies the same bytes.
const SEED: u64 = 0x6861_756c;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The rows of a tool in its table, before scaling.
fn points(kind: WorkloadKind) -> Vec<WorkloadPoint> {
    let alone = |data| vec![WorkloadPoint { label: String::new(), data, options: Vec::new() }];
    match kind {
        WorkloadKind::Big | WorkloadKind::Null | WorkloadKind::LocalBig | WorkloadKind::Disk => {
            alone(WorkloadData::File(4 * GIB))
        }
        WorkloadKind::Small | WorkloadKind::LocalSmall => alone(WorkloadData::Small(50_000)),
        WorkloadKind::Mixed => alone(WorkloadData::Mixed(200)),
        WorkloadKind::Byte => alone(WorkloadData::Byte),
        WorkloadKind::LinearEmpty => {
            [50_000, 1_000_000].map(|files| WorkloadPoint::of(WorkloadData::Empty(files))).into()
        }
        WorkloadKind::LinearNull => [GIB, 16 * GIB].map(|bytes| WorkloadPoint::of(WorkloadData::Zeros(bytes))).into(),
        WorkloadKind::LinearDisk => [GIB, 16 * GIB].map(|bytes| WorkloadPoint::of(WorkloadData::File(bytes))).into(),
        WorkloadKind::OldCpu => vec![WorkloadPoint::streams(1)],
        WorkloadKind::CurveStreams => [1, 2, 3, 4, 6, 8, 12, 16].map(WorkloadPoint::streams).into(),
        WorkloadKind::CurveFiles => {
            (0..=6).map(|power| WorkloadPoint::of(WorkloadData::Same(10_u32.pow(power)))).collect()
        }
        WorkloadKind::CurveBytes => {
            [1, 4, 16, 64, 256, 1024, 4096].map(|mib: u64| WorkloadPoint::of(WorkloadData::File(mib * MIB))).into()
        }
        WorkloadKind::CurveNull => {
            [1, 16, 256, 1024, 4096, 16384].map(|mib: u64| WorkloadPoint::of(WorkloadData::Zeros(mib * MIB))).into()
        }
    }
}

/// Source of the copy, and haul's options for it.
#[derive(Debug, Clone, PartialEq)]
struct WorkloadPoint {
    label: String,
    data: WorkloadData,
    options: Vec<String>,
}

impl WorkloadPoint {
    fn of(data: WorkloadData) -> Self {
        Self { label: String::new(), data, options: Vec::new() }
    }

    fn streams(streams: u32) -> Self {
        Self {
            label: format!("-s {streams}"),
            data: WorkloadData::File(4 * GIB),
            options: vec!["-s".into(), streams.to_string()],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkloadData {
    File(u64),
    Byte,
    Zeros(u64),
    Small(u32),
    Same(u32),
    Mixed(u32),
    Empty(u32),
}

impl WorkloadData {
    fn scaled(self, scale: f64) -> Self {
        match self {
            Self::File(bytes) => Self::File(scaled(bytes, scale)),
            Self::Byte => Self::Byte,
            Self::Zeros(bytes) => Self::Zeros(scaled(bytes, scale)),
            Self::Small(files) => Self::Small(scaled_count(files, scale)),
            Self::Same(files) => Self::Same(scaled_count(files, scale)),
            Self::Mixed(files) => Self::Mixed(scaled_count(files, scale)),
            Self::Empty(files) => Self::Empty(scaled_count(files, scale)),
        }
    }

    fn is_tree(self) -> bool {
        matches!(self, Self::Small(_) | Self::Same(_) | Self::Mixed(_) | Self::Empty(_))
    }

    fn files(self) -> u32 {
        match self {
            Self::File(_) | Self::Byte | Self::Zeros(_) => 1,
            Self::Small(files) | Self::Same(files) | Self::Mixed(files) | Self::Empty(files) => files,
        }
    }

    /// Approximate disk space: bytes, partly filled blocks, and the file system's overhead for each file.
    fn room_bytes(self) -> u64 {
        let per_file = |files: u32, bytes: u64| u64::from(files) * (bytes + KIB);
        match self {
            Self::File(bytes) => bytes,
            Self::Byte => KIB,
            Self::Zeros(_) => 0,
            Self::Small(files) => per_file(files, 11 * KIB),
            Self::Same(files) => per_file(files, 4 * KIB),
            Self::Mixed(files) => per_file(files, 9 * MIB),
            Self::Empty(files) => per_file(files, 0),
        }
    }

    fn make(self, tree: &mut TestTree, name: &str) -> Result<u64> {
        match self {
            Self::File(bytes) => tree.incompressible_file(name, bytes),
            Self::Byte => tree.incompressible_file(name, 1),
            Self::Zeros(bytes) => Ok(bytes),
            Self::Small(files) => tree.small_files(name, files, files.div_ceil(100), KIB..=16 * KIB),
            Self::Same(files) => tree.small_files(name, files, files.div_ceil(1000), KIB..=KIB),
            Self::Mixed(files) => tree.mixed_files(name, files),
            Self::Empty(files) => tree.empty_files(name, files),
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Byte => "1 byte".to_owned(),
            Self::File(bytes) | Self::Zeros(bytes) => size(bytes),
            _ if self.files() == 1 => "1 file".to_owned(),
            _ => format!("{} files", self.files()),
        }
    }
}

/// Data that exists, and how it is to be copied.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Its table.
    pub kind: WorkloadKind,
    /// The row of a tool; empty if there is only one.
    pub label: String,
    /// The name of the file or directory.
    pub name: String,
    /// The file or directory that is to be copied; `null:SIZE` for zeros from nowhere.
    pub source: PathBuf,
    /// Whether it is a directory, not a single file.
    pub is_tree: bool,
    /// How many files.
    pub files: u32,
    /// How many bytes in them.
    pub bytes: u64,
    /// More options for haul.
    pub options: Vec<String>,
}

/// Disk space for a table's data and one copy of it, in bytes.
pub fn room_bytes(kind: WorkloadKind, scale: f64) -> u64 {
    let data = distinct(kind, scale);
    let copy = data.iter().map(|data| data.room_bytes()).max().unwrap_or(0);
    let copied = if kind.place() == WorkloadPlace::Null { 0 } else { copy };
    data.iter().map(|data| data.room_bytes()).sum::<u64>() + copied
}

fn distinct(kind: WorkloadKind, scale: f64) -> Vec<WorkloadData> {
    let mut all: Vec<WorkloadData> = Vec::new();
    for point in scaled_points(kind, scale) {
        if !all.contains(&point.data) {
            all.push(point.data);
        }
    }
    all
}

/// At a small scale some become the same: these are left out.
fn scaled_points(kind: WorkloadKind, scale: f64) -> Vec<WorkloadPoint> {
    let mut all: Vec<WorkloadPoint> = Vec::new();
    for point in points(kind) {
        let point = WorkloadPoint { data: point.data.scaled(scale), ..point };
        if !all.contains(&point) {
            all.push(point);
        }
    }
    all
}

/// Makes a table's data in `directory`, sizes and counts times `scale`.
pub fn make(kind: WorkloadKind, directory: &Path, scale: f64) -> Result<Vec<Workload>> {
    fs::create_dir_all(directory).with_context(|| format!("making {directory:?}"))?;
    let mut tree = TestTree::new(directory, SEED);
    let mut made = Vec::new();
    for (number, data) in distinct(kind, scale).into_iter().enumerate() {
        let name = format!("{}-{number}", kind.name());
        let bytes = data.make(&mut tree, &name)?;
        made.push((data, name, bytes));
    }
    let points = scaled_points(kind, scale);
    let several = points.len() > 1;
    let mut workloads = Vec::new();
    for point in points {
        let data = point.data;
        let (_, name, bytes) = made.iter().find(|(one, ..)| *one == data).context("all data was made")?;
        let label = if point.label.is_empty() && several { data.describe() } else { point.label };
        workloads.push(Workload {
            kind,
            label,
            name: name.clone(),
            source: if let WorkloadData::Zeros(bytes) = data {
                format!("null:{bytes}").into()
            } else {
                directory.join(name)
            },
            is_tree: data.is_tree(),
            files: data.files(),
            bytes: *bytes,
            options: point.options,
        });
    }
    Ok(workloads)
}

impl Workload {
    /// Gigabytes (10^9 bytes).
    pub fn gigabytes(&self) -> f64 {
        gigabytes(self.bytes)
    }

    /// Whether there is something to compare a copy with.
    pub fn has_source(&self) -> bool {
        self.source.is_absolute()
    }
}

/// In units of 10^9.
#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
pub fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// In powers of 1024, for whole multiples.
fn size(bytes: u64) -> String {
    for (unit, name) in [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "scale is 0.0001 to 10"
)]
fn scaled(value: u64, scale: f64) -> u64 {
    ((value as f64 * scale) as u64).max(1)
}

fn scaled_count(value: u32, scale: f64) -> u32 {
    u32::try_from(scaled(value.into(), scale)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_made_to_scale() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for kind in WorkloadKind::ALL {
            let at = directory.path().join(kind.name());
            let workloads = make(kind, &at, 0.0001).expect("made");
            for workload in &workloads {
                assert_eq!(workload.source.is_dir(), workload.is_tree, "{workload:?}");
                assert_eq!(
                    workload.label.is_empty(),
                    workloads.len() == 1 && kind != WorkloadKind::OldCpu,
                    "{workload:?}"
                );
                assert_eq!(workload.has_source(), workload.source.exists(), "{workload:?}");
            }
            let of = |index: usize| (workloads[index].files, workloads[index].bytes);
            match kind {
                WorkloadKind::Big | WorkloadKind::Null => assert_eq!(of(0), (1, 429_496)),
                WorkloadKind::LinearEmpty => assert_eq!((of(0), of(1)), ((5, 0), (100, 0))),
                WorkloadKind::LinearNull => assert_eq!(workloads[1].source, Path::new("null:1717986")),
                WorkloadKind::CurveFiles => assert_eq!((of(0), of(2)), ((1, 1 << 10), (100, 100 << 10))),
                WorkloadKind::Byte => assert_eq!(of(0), (1, 1)),
                _ => {}
            }
        }
    }

    #[test]
    fn room_is_for_the_data_and_one_copy() {
        assert_eq!(room_bytes(WorkloadKind::Big, 1.0), 8 * GIB);
        assert_eq!(room_bytes(WorkloadKind::Null, 1.0), 4 * GIB);
        assert_eq!(room_bytes(WorkloadKind::CurveStreams, 1.0), 8 * GIB);
        assert_eq!(room_bytes(WorkloadKind::LinearDisk, 1.0), 33 * GIB);
        assert_eq!(room_bytes(WorkloadKind::CurveNull, 1.0), 0);
    }
}
