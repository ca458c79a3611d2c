//! The target's tree: directories, existing entries, partial files, and the precedence of sources.

pub mod case_folding;
pub mod directories;
pub mod existing;
pub mod find_partial;
pub mod list_batches;
pub mod merged_sources;
pub mod parent_directories;
pub mod removal_only;

use std::collections::HashSet;
use std::sync::Arc;

use haul_proto::entry::{Entry, EntryContent};
use haul_proto::error::ProtocolError;
use haul_proto::path::{Name, escape};
use haul_proto::session::step::EntryAnswer;
use haul_proto::wire::list_batch::{DestinationBatch, ListedKinds, OperandDestination};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::TargetRequest;

use crate::fs::{Dir, StatAhead};
use crate::receiver::copy::ReceiverCopy;
use crate::receiver::delete::Removals;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::place::copy_locks::CopyLocks;
use crate::receiver::place::copy_quota::CopyQuota;
use crate::receiver::place::destination::DestinationKind;
use crate::receiver::place::directory_locks::DirectoryLocks;
use crate::receiver::place::journal::JournalLocation;
use crate::receiver::place::temp_files::{ForeignReport, StripingReport, TempFiles};
use crate::receiver::tree::case_folding::CaseFolding;
use crate::receiver::tree::list_batches::ListedBatches;
use crate::receiver::tree::merged_sources::MergedSources;
use crate::receiver::tree::parent_directories::Below;

/// Finds the location of each entry below the destination, and owns the partial files there.
pub struct TargetTree {
    pub(super) copy: Arc<ReceiverCopy>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) removals: Arc<Removals>,
    /// Directories between the destination and the source arguments.
    pub(super) parents: Below,
    /// Source arguments that are directories: entries there have their own metadata.
    pub(super) walked: HashSet<Box<[Name]>>,
    /// Directories above source arguments, whose times the entries of those change.
    pub(super) above_operands: HashSet<Box<[Name]>>,
    /// Source arguments from a list.
    pub(super) list_batches: ListedBatches,
    /// Precedence of several sources.
    pub(super) merged_sources: MergedSources,
    /// Partial files.
    pub(super) temp_files: TempFiles,
    /// Locks against other copies on the same files.
    pub(super) copy_locks: CopyLocks,
    /// Locations of journals.
    pub(super) journals: JournalLocation,
    /// Names that differ from existing ones by case alone.
    pub(super) case_folding: CaseFolding,
    /// Lookups of existing entries.
    pub(super) lookups: StatAhead,
    /// Bytes and names that the copy may still create.
    pub(super) quota: Arc<CopyQuota>,
}

impl TargetTree {
    pub(super) fn new(
        removals: &Arc<Removals>,
        journals: JournalLocation,
        temp_dir: Option<Dir>,
        quota: Arc<CopyQuota>,
        directories: Option<DirectoryLocks>,
    ) -> Self {
        let copy = &removals.copy;
        let lock_reports = Arc::clone(copy);
        Self {
            copy: Arc::clone(copy),
            metadata: Arc::clone(&removals.metadata),
            removals: Arc::clone(removals),
            parents: Below::default(),
            walked: walked(&copy.request),
            above_operands: above_operands(&copy.request),
            list_batches: ListedBatches::default(),
            merged_sources: MergedSources::new(&copy.request.operands, copy.request.listed),
            temp_files: TempFiles::new(temp_dir, foreign_report(copy), striping_report(copy)),
            copy_locks: CopyLocks::new(copy.request.again, directories, move |event| lock_reports.report_lock(event)),
            journals,
            case_folding: CaseFolding::default(),
            lookups: StatAhead::default(),
            quota,
        }
    }

    /// Returns the copy's unused quota to other clients.
    pub fn end_quota(&self) {
        self.quota.end(self.copy.reporter.tally.counters().bytes_written);
    }

    /// Adds source arguments received while the copy runs.
    pub fn add_listed(&self, batch: DestinationBatch) -> Result<(), ProtocolError> {
        match self.copy.request.listed {
            ListedKinds::No => Err(ProtocolError::Unasked("a listed source argument")),
            ListedKinds::Files | ListedKinds::Trees => self.list_batches.add(batch),
        }
    }
}

/// The directories among source arguments with parents, from the destination down.
fn walked(request: &TargetRequest) -> HashSet<Box<[Name]>> {
    let directories = request.operands.iter().zip(&request.below).filter(|(operand, _)| operand.directory);
    directories.map(|(operand, below)| below.iter().chain(&operand.name).cloned().collect()).collect()
}

/// All directories above source arguments with parents, from the destination down.
fn above_operands(request: &TargetRequest) -> HashSet<Box<[Name]>> {
    let above = |below: &Vec<Name>| (1..=below.len()).map(|len| below[..len].into()).collect::<Vec<_>>();
    request.below.iter().flat_map(above).collect()
}

fn striping_report(copy: &Arc<ReceiverCopy>) -> StripingReport {
    let copy = Arc::clone(copy);
    Box::new(move |path, error| copy.report_refused_striping(path, error))
}

fn foreign_report(copy: &Arc<ReceiverCopy>) -> ForeignReport {
    let copy = Arc::clone(copy);
    Box::new(move |path, name| {
        let shown = escape(&copy.destination.path(&path.dir.path_of(path.name.as_bytes())));
        let text = format!("{shown}: kept {name}, which is not haul's");
        copy.reporter.send(&WorkerMessage::Warning { text });
    })
}

impl TargetTree {
    /// The destination of the source argument with this number, if the controller announced it.
    pub(crate) fn requested_operand(&self, number: u32, entry: &Entry) -> Option<OperandDestination> {
        let is_directory = entry.kind == EntryContent::Directory;
        let fixed = || {
            let operand = self.copy.request.operands.get(number as usize)?;
            let below = self.copy.request.below.get(number as usize).cloned().unwrap_or_default();
            (is_directory == operand.directory).then(|| OperandDestination { below, name: operand.name.clone() })
        };
        match (&entry.kind, self.copy.request.listed) {
            (EntryContent::HardLink { .. }, _) => None,
            (EntryContent::Symlink { .. } | EntryContent::Node(_), _) if !self.copy.request.takes_links => None,
            (_, ListedKinds::No) => fixed(),
            (EntryContent::Directory, ListedKinds::Files) | (EntryContent::Stream, _) => None,
            (_, ListedKinds::Files | ListedKinds::Trees) => self.list_batches.take_destination(number),
        }
    }

    /// Locks the directory of a source argument against other runs.
    pub(crate) fn lock_answer(
        &self,
        answer: EntryAnswer<ReceiverEntry>,
        name: Option<&Name>,
    ) -> EntryAnswer<ReceiverEntry> {
        let EntryAnswer::Needed(item) = &answer else { return answer };
        let ReceiverEntry::Directory { dir, .. } = &**item else { return answer };
        if dir.is_absent() {
            return answer;
        }
        match self.copy_locks.enter(dir) {
            Ok(()) => answer,
            Err(error) => {
                let own_name = matches!(self.copy.destination.kind, DestinationKind::Into(_)).then_some(name);
                let relative = own_name.flatten().map_or(&b""[..], |name| name.as_bytes());
                self.copy.fail_entry(self.copy.destination.path(relative), error);
                EntryAnswer::Refused
            }
        }
    }
}
