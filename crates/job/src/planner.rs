//! The walk of the source, which fills shards meanwhile. Memory does not grow with the number of files.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_base::copy::display_path::own_name;
use haul_base::copy::spec::{FilterOptions, PlannedVersion, RangeLen, Symlinks};
use haul_base::held_directory::UnnamedFile;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe;
use haul_engine::fs::{
    Dir, DirAccess, FdCache, FileIdentity, FileStat, MAX_OPEN_DIRECTORIES, Prefetcher, SpecialFiles, WalkEntry,
    WalkFilter, WalkOptions, Walker,
};
use haul_proto::path::{Name, escape};
use serde_json::json;

use crate::description::JobDescription;
use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::link_spill::{LinkSpill, LinkedName};
use crate::packer::{PlacedFile, ShardLimits, ShardPacker, ShardPlacement};
use crate::plan_index::{PlanIndexWriter, PlanTotals, PlannedRange, PlannedShard};
use crate::shard_list::ShardListWriter;

/// Entries between checks for cancellation.
const CHECK_EVERY: u64 = 1024;

/// Options of the copy for the walk.
#[derive(Debug, Clone)]
pub struct WalkRules {
    /// Treatment of symbolic links.
    pub symlinks: Symlinks,
    /// Whether to stay on the source's file system.
    pub one_file_system: bool,
    /// Filters.
    pub filters: FilterOptions,
    /// Devices, FIFOs and sockets to copy.
    pub nodes: SpecialFiles,
    /// A local target, which is excluded if it is in the source.
    pub target: Option<PathBuf>,
    /// Most ranges of a file.
    pub ranges_max: u64,
    /// Whether the walk may use all CPUs, since this host makes no copies.
    pub is_alone: bool,
}

/// Plans `job`. Shards are in its index once their lists are complete. Calls `on_shard` for each shard.
pub fn plan(
    job: &JobDirectory,
    description: &JobDescription,
    rules: &WalkRules,
    cancel: &Cancel,
    on_shard: &mut dyn FnMut(&PlanTotals),
) -> Result<PlanTotals, JobError> {
    let filter = WalkFilter::new(&rules.filters)
        .map_err(|error| JobError::usage(error.to_string(), "haul help filters explains patterns"))?;
    let source = &description.source;
    let cache = FdCache::new(MAX_OPEN_DIRECTORIES);
    let root = Dir::open_operand(source, DirAccess::List, Arc::clone(&cache))
        .map_err(|error| not_a_directory(source, &error))?;
    let options = WalkOptions {
        recursive: true,
        symlinks: rules.symlinks,
        skip: rules.target.as_deref().and_then(identity_of),
        one_file_system: rules.one_file_system,
        is_filtered: filter.is_some(),
        nodes: rules.nodes,
        only_counts_files: false,
    };
    let prefetcher = if rules.is_alone { Prefetcher::always } else { Prefetcher::new };
    let ahead = prefetcher(options, cancel.clone());
    let mut planner = ShardPlanner::new(job, description, rules.ranges_max)?;
    let mut entries: u64 = 0;
    let name = own_name(source).and_then(|name| Name::new(name.as_bytes()).ok());
    for entry in Walker::prefetched(root, &ahead).filtered(filter.as_ref()).transferred_as(name) {
        let shards = planner.totals.shards;
        planner.entry(entry)?;
        entries += 1;
        if planner.totals.shards != shards {
            on_shard(&planner.totals);
        }
        if entries.is_multiple_of(CHECK_EVERY) && cancel.is_cancelled() {
            return Err(JobError::cancelled(job.path()));
        }
    }
    if cancel.is_cancelled() {
        return Err(JobError::cancelled(job.path()));
    }
    planner.finish()
}

/// Fails if a source cannot be walked.
pub fn check_source(source: &Path) -> Result<(), JobError> {
    let opened = Dir::open_operand(source, DirAccess::List, FdCache::new(MAX_OPEN_DIRECTORIES));
    opened.map(drop).map_err(|error| not_a_directory(source, &error))
}

fn not_a_directory(source: &Path, error: &std::io::Error) -> JobError {
    let shown = crate::error::shown(source);
    match std::fs::metadata(source) {
        Ok(found) if !found.is_dir() => {
            JobError::usage(format!("{shown}: not a directory"), "copy a single file with haul SOURCE TARGET")
        }
        _ => JobError::failed(format!("{shown}: {}", describe(error)), "plan the job on a host that mounts the source"),
    }
}

fn identity_of(path: &Path) -> Option<FileIdentity> {
    rustix::fs::stat(path).ok().map(|found| FileStat::from(&found).identity)
}

/// Writes shards from entries of the source.
pub struct ShardPlanner<'a> {
    job: &'a JobDirectory,
    index: PlanIndexWriter,
    packer: ShardPacker,
    limits: ShardLimits,
    /// Larger files are divided into ranges of this length.
    range_len: Option<RangeLen>,
    /// Most ranges of a file.
    ranges_max: u64,
    /// The open shard and its number.
    open: Option<(u32, ShardListWriter)>,
    /// Stored names, if hard links are preserved.
    links: Option<LinkSpill>,
    failures: Option<UnnamedFile>,
    /// The path of the innermost directory below the base, with a trailing slash.
    path: Vec<u8>,
    /// Its lengths, from the base down.
    depths: Vec<usize>,
    totals: PlanTotals,
}

impl<'a> ShardPlanner<'a> {
    /// Starts the plan of `job`. A file has at most `ranges_max` ranges.
    pub fn new(job: &'a JobDirectory, description: &JobDescription, ranges_max: u64) -> Result<Self, JobError> {
        let mut path = description.name.as_encoded_bytes().to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        let links =
            (description.options.keeps_hard_links() && !description.is_pulled()).then(|| LinkSpill::new(job.spill()));
        let (packer, limits) = (ShardPacker::new(description.sizes), description.sizes.full);
        let index = PlanIndexWriter::create(job)?;
        let (open, failures) = (None, None);
        let (depths, totals) = (Vec::new(), PlanTotals::default());
        let range_len = description.range_len;
        Ok(Self { job, index, packer, limits, range_len, ranges_max, open, links, failures, path, depths, totals })
    }

    fn entry(&mut self, entry: WalkEntry) -> Result<(), JobError> {
        match entry {
            WalkEntry::EnterDir { dir, .. } => {
                self.add_directory();
                self.depths.push(self.path.len());
                if let Some(name) = dir.name() {
                    self.path.extend_from_slice(name.as_bytes());
                    self.path.push(b'/');
                }
                Ok(())
            }
            WalkEntry::LeaveDir { complete, .. } => {
                self.path.truncate(self.depths.pop().unwrap_or_default());
                self.totals.failed += u64::from(!complete);
                Ok(())
            }
            WalkEntry::File { name, .. } | WalkEntry::Symlink { name, .. } if name.is_reserved() => Ok(()),
            WalkEntry::File { name, stat, .. } => self.file(&name, &stat),
            WalkEntry::Symlink { name, .. } => {
                let path = [&self.path, name.as_bytes()].concat();
                self.add(&path, 0)
            }
            WalkEntry::Node { .. } => {
                self.add_other();
                Ok(())
            }
            WalkEntry::LeftOut { .. }
            | WalkEntry::Filtered { .. }
            | WalkEntry::FilteredFiles { .. }
            | WalkEntry::Vanished { .. }
            | WalkEntry::VanishedDir { .. } => Ok(()),
            WalkEntry::Failed { path, error } => self.fail(&path, &describe(&error)),
        }
    }

    fn file(&mut self, name: &Name, stat: &FileStat) -> Result<(), JobError> {
        let path = [&self.path, name.as_bytes()].concat();
        self.totals.holes = self.totals.holes.saturating_add(stat.size.saturating_sub(stat.room));
        match &mut self.links {
            Some(links) if stat.names > 1 => {
                let inode_hash = LinkedName::hash(stat.identity.device, stat.identity.inode);
                links.add(&LinkedName { inode_hash, bytes: stat.size, path })
            }
            _ if self.range_len.is_some_and(|len| len.ranges_of(stat.size) > 1) => self.add_ranges(&path, stat),
            _ => self.add(&path, stat.size),
        }
    }

    /// Adds a file as ranges, each in a separate shard.
    fn add_ranges(&mut self, path: &[u8], stat: &FileStat) -> Result<(), JobError> {
        let Some(planned_len) = self.range_len else { return self.add(path, stat.size) };
        let len = planned_len.lengthened_for(stat.size, self.ranges_max);
        self.totals.lengthened += u64::from(len != planned_len);
        let (size, inode, modified) = (stat.size, stat.identity.inode, stat.meta.modified);
        let version = PlannedVersion { size, inode, modified, changed: stat.changed };
        self.totals.files += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(size);
        let ranges = len.ranges_of(size);
        for (number, range) in (0..ranges).filter_map(|number| Some((number, len.range(number)?))) {
            let bytes = range.bytes_in(size);
            let shard = self.packer.place_range(bytes).ok_or_else(too_many_shards)?;
            let mut list = self.begin(shard)?;
            list.add(path, bytes)?;
            list.finish()?;
            let range = Some(PlannedRange { number, ranges, len, version });
            self.index(PlannedShard { number: shard, files: u64::from(number == 0), bytes, range })?;
        }
        Ok(())
    }

    /// Counts a directory.
    pub fn add_directory(&mut self) {
        self.totals.directories += 1;
    }

    /// Counts a device, FIFO or socket to copy.
    pub fn add_other(&mut self) {
        self.totals.others += 1;
    }

    /// Counts a further name of a file, if hard links are preserved.
    pub fn add_linked(&mut self) {
        self.totals.linked += 1;
    }

    /// The totals so far.
    pub fn totals(&self) -> &PlanTotals {
        &self.totals
    }

    /// Adds the file or link at `path` below the base.
    pub fn add(&mut self, path: &[u8], bytes: u64) -> Result<(), JobError> {
        self.totals.files += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(bytes);
        let PlacedFile { shard, placement } = self.packer.place(bytes).ok_or_else(too_many_shards)?;
        if placement == ShardPlacement::Alone {
            let mut list = self.begin(shard)?;
            list.add(path, bytes)?;
            return self.publish(shard, list);
        }
        self.opened(shard)?.add(path, bytes)?;
        if placement == ShardPlacement::Last { self.close() } else { Ok(()) }
    }

    /// The list of the open shard with this number.
    fn opened(&mut self, shard: u32) -> Result<&mut ShardListWriter, JobError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => (shard, self.begin(shard)?),
        };
        Ok(&mut self.open.insert(open).1)
    }

    fn begin(&self, shard: u32) -> Result<ShardListWriter, JobError> {
        ShardListWriter::create(self.job.list(shard))
    }

    fn close(&mut self) -> Result<(), JobError> {
        self.open.take().map_or(Ok(()), |(number, list)| self.publish(number, list))
    }

    /// Publishes a list, then its line. Lines may be out of order.
    fn publish(&mut self, number: u32, list: ShardListWriter) -> Result<(), JobError> {
        let shard = PlannedShard { number, files: list.files, bytes: list.bytes, range: None };
        list.finish()?;
        self.index(shard)
    }

    fn index(&mut self, shard: PlannedShard) -> Result<(), JobError> {
        self.totals.shards += 1;
        self.index.add(shard)
    }

    /// Counts and records an unreadable entry.
    pub fn fail(&mut self, path: &[u8], why: &str) -> Result<(), JobError> {
        self.totals.failed += 1;
        let to = self.job.plan_failures();
        let failures = match self.failures.take() {
            Some(failures) => failures,
            None => to.create_unnamed()?,
        };
        let failures = self.failures.insert(failures);
        let line = json!({ "path": escape(path), "message": why });
        writeln!(failures, "{line}").map_err(|error| JobError::io(to.path(), &error))
    }

    /// Ends the plan.
    pub fn finish(mut self) -> Result<PlanTotals, JobError> {
        if let Some(links) = self.links.take() {
            let limits = self.limits;
            self.totals.linked += links.drain(limits, &mut |name| self.add(&name.path, name.bytes))?;
        }
        self.close()?;
        let failures = self.job.plan_failures();
        self.failures.take().map_or(Ok(()), |file| failures.publish(file))?;
        self.index.complete(self.totals)?;
        Ok(self.totals)
    }
}

fn too_many_shards() -> JobError {
    JobError::usage("the plan has too many shards", "use a larger --shard-bytes, --shard-files or --shard-range")
}

#[cfg(test)]
#[path = "planner_tests.rs"]
mod tests;
