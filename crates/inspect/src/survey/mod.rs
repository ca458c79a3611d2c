//! The contents of a transfer before its start: walks like a copy, and counts.
//!
//! One walk counts (`tally`), draws the tree (`tree`), keeps the names of possible duplicates (`catalog`) and picks the
//! bytes of the sample (`sample`); the target's directories are examined beside it (`target_survey`). Then files of
//! equal size are read (`duplicates`), and the sample is compressed. Nothing is written, and memory stays within each
//! part's bounds, whatever the number of files.

mod catalog;
mod duplicates;
mod extensions;
mod gather;
mod sample;
mod tally;
mod target_survey;
#[cfg(test)]
mod tests;
mod top_n;
mod tree;

use std::path::PathBuf;
use std::time::Duration;

use haul_base::copy::error::Error;
use haul_base::copy::spec::{FilterOptions, Symlinks};
use haul_base::sys::cancel::Cancel;
use haul_engine::fs::WalkFilter;

pub use self::duplicates::{DuplicateFiles, DuplicateSet};
pub use self::sample::{CompressionSample, MethodResult};
pub use self::tally::{BigDirectory, BigFile, FileTotals, SizeClass, SurveyTotals, UnreadableEntry};
pub use self::tree::SurveyDirectory;
pub use crate::survey::extensions::ExtensionTotals;
pub use crate::survey::target_survey::TargetSurvey;

/// The roots of a survey, and its options.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Files and directories of this machine; directories are walked.
    pub paths: Vec<PathBuf>,
    /// Treatment of symbolic links in directories.
    pub symlinks: Symlinks,
    /// Whether to stay on each path's file system.
    pub one_file_system: bool,
    /// Filters.
    pub filters: FilterOptions,
    /// Local target of a later copy: existing files are counted.
    pub target: Option<PathBuf>,
    /// Directory of a target's remembered trees.
    pub state_dir: Option<PathBuf>,
    /// Whether to search for duplicates, which reads files.
    pub duplicates: bool,
    /// Whether to measure compressibility, which reads files.
    pub sample: bool,
    /// Time limit for reading files. The walk has no limit.
    pub time: Duration,
}

/// The results of a survey.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Totals.
    pub totals: SurveyTotals,
    /// Files by size class, smallest first, without gaps.
    pub sizes: Vec<SizeClass>,
    /// The directories with the most bytes in and below them, biggest first.
    pub directories: Vec<BigDirectory>,
    /// The biggest files, biggest first.
    pub files: Vec<BigFile>,
    /// Files by name extension, those with the most bytes first.
    pub kinds: Vec<ExtensionTotals>,
    /// Files with other extensions.
    pub other_kinds: FileTotals,
    /// The directory tree, below a common root.
    pub tree: SurveyDirectory,
    /// Unreadable entries.
    pub unreadable: UnreadableEntry,
    /// Duplicates; `None` without a search.
    pub duplicates: Option<DuplicateFiles>,
    /// Compressibility; `None` without a sample, or without data.
    pub sample: Option<CompressionSample>,
    /// Comparison with the target; `None` without one.
    pub there: Option<TargetSurvey>,
}

impl Survey {
    /// Whether all paths of the survey are unreadable, so that there is nothing to show.
    pub fn is_unreadable(&self) -> bool {
        self.unreadable.count > 0 && self.totals == SurveyTotals::default()
    }
}

/// The stage of a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyStage {
    /// The walk.
    Walking,
    /// Reading and compressing the sample.
    Sampling,
    /// Reading files of equal size.
    Comparing,
}

/// The progress of a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyProgress {
    /// The stage.
    pub stage: SurveyStage,
    /// Found files.
    pub files: u64,
    /// Found bytes; in later stages, read bytes.
    pub bytes: u64,
}

/// Receives the progress, several times per second.
pub type SurveyObserver<'l> = &'l mut dyn FnMut(SurveyProgress);

/// Runs the survey. Unreadable entries are counted and listed; errors are invalid requests and [`Error::Interrupted`].
pub fn run(ask: &Ask, cancel: &Cancel, listener: SurveyObserver<'_>) -> Result<Survey, Error> {
    let filter = WalkFilter::new(&ask.filters).map_err(|error| Error::Usage(error.to_string()))?;
    let gathered = gather::gather(ask, filter.as_ref(), cancel, listener)?;
    gathered.finish(ask, cancel, listener)
}
