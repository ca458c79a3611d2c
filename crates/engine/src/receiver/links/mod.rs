//! Hard links, at the source and at the target.

pub mod first_names;
pub mod hard_link_guard;
pub mod hard_links;

use std::sync::Arc;

use crate::receiver::copy::ReceiverCopy;
use crate::receiver::links::hard_link_guard::HardLinkGuard;
use crate::receiver::links::hard_links::HardLinks;

/// Keeps track of hard links at both ends.
pub struct LinkTracker {
    pub(crate) copy: Arc<ReceiverCopy>,
    /// Source files with names still to be offered.
    pub(crate) hard_links: HardLinks,
    /// Target files with hard links.
    pub(crate) guard: HardLinkGuard,
}

impl LinkTracker {
    pub(crate) fn new(copy: &Arc<ReceiverCopy>) -> Self {
        Self { copy: Arc::clone(copy), hard_links: HardLinks::default(), guard: HardLinkGuard::default() }
    }
}
