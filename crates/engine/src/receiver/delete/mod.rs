//! Removal of extraneous entries, and backups of them.

pub mod backup;
mod backup_copy;
pub mod directory_exchange;
pub mod extraneous;
pub mod filter;
mod missing_operands;
pub mod removal;
pub mod remove_tree;

use std::sync::Arc;

use crate::receiver::copy::ReceiverCopy;
use crate::receiver::delete::backup::Backups;
use crate::receiver::delete::filter::TargetFilter;
use crate::receiver::delete::removal::ExtraneousRemoval;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::source_names::NameBudget;

/// Removes extraneous entries, makes way for replacements, and backs up both.
pub struct Removals {
    pub(super) copy: Arc<ReceiverCopy>,
    pub(super) metadata: Arc<MetadataWriter>,
    /// The source's filters.
    pub(super) filter: TargetFilter,
    /// Backups, if requested.
    pub(super) backup: Option<Backups>,
    /// Directories to sweep, and the removals so far.
    pub(super) extraneous: ExtraneousRemoval,
    /// The memory limit of source names in open directories.
    pub(super) name_budget: NameBudget,
}

impl Removals {
    pub(super) fn new(metadata: &Arc<MetadataWriter>, backup: Option<Backups>, extraneous: ExtraneousRemoval) -> Self {
        Self {
            copy: Arc::clone(&metadata.copy),
            metadata: Arc::clone(metadata),
            filter: TargetFilter::new(&metadata.copy.request),
            backup,
            extraneous,
            name_budget: NameBudget::default(),
        }
    }
}
