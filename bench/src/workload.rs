//! The data that is copied: what it is called, what it consists of, and making it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use haul_lab::Tree;

/// One seed for all, so that every machine copies the same bytes.
const SEED: u64 = 0x6861_756c;

/// The workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One file of 4 GiB.
    Big,
    /// The same file, to `/dev/null` at the target.
    Null,
    /// 50,000 files of 1 to 16 KiB in 500 directories.
    Small,
    /// 200 files of 10 KiB to 64 MiB.
    Mixed,
    /// 1,000,000 empty files in 1,000 directories.
    Empty,
}

impl Kind {
    /// In the order in which they are run.
    pub const ALL: [Self; 5] = [Self::Big, Self::Null, Self::Small, Self::Mixed, Self::Empty];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Null => "null",
            Self::Small => "small",
            Self::Mixed => "mixed",
            Self::Empty => "empty",
        }
    }

    /// The reverse of [`Kind::name`].
    pub fn from_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.with_context(|| format!("there is no workload {name}; there are big, null, small, mixed, empty"))
    }

    /// Whether it is a directory, not a single file.
    pub fn is_tree(self) -> bool {
        !matches!(self, Self::Big | Self::Null)
    }
}

/// A workload whose data exists.
#[derive(Debug)]
pub struct Workload {
    /// Which.
    pub kind: Kind,
    /// The file or directory that is to be copied.
    pub source: PathBuf,
    /// How many files.
    pub files: u32,
    /// How many bytes in them.
    pub bytes: u64,
}

impl Workload {
    /// Makes the data in `directory`, sizes and counts times `scale`.
    pub fn make(kind: Kind, directory: &Path, scale: f64) -> Result<Self> {
        let mut tree = Tree::new(directory, SEED);
        let (files, bytes) = match kind {
            Kind::Big | Kind::Null => (1, tree.incompressible_file(kind.name(), scaled(4 << 30, scale))?),
            Kind::Small => {
                let files = scaled_count(50_000, scale);
                (files, tree.small_files(kind.name(), files, files.div_ceil(100), 1 << 10..=16 << 10)?)
            }
            Kind::Mixed => {
                let files = scaled_count(200, scale);
                (files, tree.mixed_files(kind.name(), files)?)
            }
            Kind::Empty => {
                let files = scaled_count(1_000_000, scale);
                (files, tree.empty_files(kind.name(), files)?)
            }
        };
        Ok(Self { kind, source: directory.join(kind.name()), files, bytes })
    }

    /// Gigabytes (10^9 bytes).
    pub fn gigabytes(&self) -> f64 {
        gigabytes(self.bytes)
    }

    /// Frees the memory or disk space of the data.
    pub fn remove(&self) -> Result<()> {
        let removed =
            if self.kind.is_tree() { fs::remove_dir_all(&self.source) } else { fs::remove_file(&self.source) };
        removed.with_context(|| format!("removing {:?}", self.source))
    }

    /// What it is, for a heading.
    pub fn title(&self) -> String {
        let gigabytes = self.gigabytes();
        match self.kind {
            Kind::Big => format!("big: one incompressible file of {gigabytes:.2} GB"),
            Kind::Null => format!("null: one file of {gigabytes:.2} GB to /dev/null"),
            Kind::Small => format!("small: {} files of 1 to 16 KiB, {gigabytes:.3} GB", self.files),
            Kind::Mixed => format!("mixed: {} files of 10 KiB to 64 MiB, {gigabytes:.2} GB", self.files),
            Kind::Empty => format!("empty: {} empty files", self.files),
        }
    }
}

/// In units of 10^9.
#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
pub fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
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
    fn names_are_those_of_the_command_line() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()).expect("its own name"), kind);
        }
    }

    #[test]
    fn data_is_made_to_scale_and_removed() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for kind in Kind::ALL {
            let workload = Workload::make(kind, directory.path(), 0.001).expect("made");
            assert_eq!(workload.source.is_dir(), kind.is_tree());
            match kind {
                Kind::Big | Kind::Null => assert_eq!((workload.files, workload.bytes), (1, 4_294_967)),
                Kind::Small => assert!(workload.files == 50 && (50 << 10..=50 << 14).contains(&workload.bytes)),
                Kind::Mixed => assert_eq!(workload.files, 1),
                Kind::Empty => assert_eq!((workload.files, workload.bytes), (1000, 0)),
            }
            workload.remove().expect("removed");
            assert!(!workload.source.exists());
        }
    }
}
