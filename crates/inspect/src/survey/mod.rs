//! The contents of a transfer before its start: walks what a copy would walk, and counts.
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

use haul_base::job::error::Error;
use haul_base::job::spec::{FilterOptions, Symlinks};
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
    /// What becomes of symbolic links in directories.
    pub symlinks: Symlinks,
    /// What is left out.
    pub filters: FilterOptions,
    /// Local target of a later copy: existing files are counted.
    pub target: Option<PathBuf>,
    /// Where a target remembers trees that it made.
    pub state_dir: Option<PathBuf>,
    /// Whether to search for duplicates, which reads files.
    pub duplicates: bool,
    /// Whether files are read to see how they compress.
    pub sample: bool,
    /// How long files are read, together. The walk is not limited.
    pub time: Duration,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// How much there is of everything.
    pub totals: SurveyTotals,
    /// Files by their sizes, from the smallest on, without a gap.
    pub sizes: Vec<SizeClass>,
    /// The directories with the most bytes in and below them, the biggest first.
    pub directories: Vec<BigDirectory>,
    /// The biggest files, the biggest first.
    pub files: Vec<BigFile>,
    /// Files by the ends of their names, those with the most bytes first.
    pub kinds: Vec<ExtensionTotals>,
    /// What is in all other kinds.
    pub other_kinds: FileTotals,
    /// Where the bytes are: a root above all that was named.
    pub tree: SurveyDirectory,
    /// What a copy could not read.
    pub unreadable: UnreadableEntry,
    /// Duplicates; `None` without a search.
    pub duplicates: Option<DuplicateFiles>,
    /// Compressibility; `None` without a sample, or without data.
    pub sample: Option<CompressionSample>,
    /// What is at the target; `None` where none was named.
    pub there: Option<TargetSurvey>,
}

/// What a survey is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyStage {
    /// Looking at names; then it reads.
    Walking,
    /// Reading and compressing the sample, then reading files of equal size.
    Sampling,
    /// Reading files of equal size; then it is done.
    Comparing,
}

/// How far a survey is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyProgress {
    /// What it is at.
    pub stage: SurveyStage,
    /// Files that were found.
    pub files: u64,
    /// Bytes that were found, or, of the later stages, read.
    pub bytes: u64,
}

/// Receives the progress, some times a second or more often.
pub type SurveyObserver<'l> = &'l mut dyn FnMut(SurveyProgress);

/// Runs the survey. Unreadable entries are counted and named; an error is a wrong request, or [`Error::Interrupted`].
pub fn run(ask: &Ask, cancel: &Cancel, listener: SurveyObserver<'_>) -> Result<Survey, Error> {
    let filter = WalkFilter::new(&ask.filters).map_err(|error| Error::Usage(error.to_string()))?;
    let gathered = gather::gather(ask, filter.as_ref(), cancel, listener)?;
    gathered.finish(ask, cancel, listener)
}
