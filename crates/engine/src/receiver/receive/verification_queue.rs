//! Files whose data is to be read before they can be complete.

use std::sync::Arc;

use haul_proto::ids::EntryId;

use crate::receiver::bounded_queue::BoundedQueue;
use crate::receiver::entry::ReceiverEntry;

/// Data of a file to be read before the file can be complete.
pub enum VerificationClaim {
    /// A partial file to verify, already answered.
    Part(EntryId, Arc<ReceiverEntry>),
    /// The unhashed rest of a file of this many bytes with a requested digest.
    Sum(EntryId, Arc<ReceiverEntry>, u64),
}

/// Claims to verify.
pub type VerificationQueue = BoundedQueue<VerificationClaim>;
