//! Entries with several names: at the source, and at the target.

use crate::receiver::job::ReceiverJob;
use crate::receiver::links::hard_link_guard::HardLinkGuard;
use crate::receiver::links::hard_links::HardLinks;
use std::sync::Arc;

/// Keeps track of hard links at both ends.
pub struct LinkTracker {
    pub(crate) job: Arc<ReceiverJob>,
    /// Files of the source with further names to come.
    pub(crate) hard_links: HardLinks,
    /// Files of the target that have several names.
    pub(crate) guard: HardLinkGuard,
}

impl LinkTracker {
    pub(crate) fn new(job: &Arc<ReceiverJob>) -> Self {
        Self { job: Arc::clone(job), hard_links: HardLinks::default(), guard: HardLinkGuard::default() }
    }
}
pub mod first_names;
pub mod hard_link_guard;
pub mod hard_links;
