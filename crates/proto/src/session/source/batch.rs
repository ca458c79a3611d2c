//! Entries that are offered together, and the ids of all offers.

use crate::entry::Entry;
use crate::ids::EntryId;
use crate::limits::OFFER_ENTRIES_MAX;
use crate::wire::message::SourceMessage;

/// Size in bytes at which an Offer is sent, whatever the number of its entries.
const OFFER_BYTES: usize = 256 << 10;
/// Most bytes of an entry in an Offer besides its name, link target and extras.
const ENTRY_BYTES: usize = 96;

/// The next Offer.
#[derive(Debug, Default)]
pub(super) struct OfferBatch {
    /// The id after that of the last entry.
    next: u64,
    /// Entries before this one were sent in an Offer; the target cannot name others.
    sent: u64,
    entries: Vec<Entry>,
    bytes: usize,
}

impl OfferBatch {
    /// Takes the id of the next entry.
    pub fn take_id(&mut self) -> EntryId {
        self.next += 1;
        EntryId(self.next - 1)
    }

    /// Adds the entry with the latest id, which has this many bytes of names and attributes.
    pub fn push(&mut self, entry: Entry, bytes: usize) {
        self.bytes += ENTRY_BYTES + bytes;
        self.entries.push(entry);
    }

    /// Whether no further entry belongs in it.
    pub fn is_full(&self) -> bool {
        self.entries.len() == OFFER_ENTRIES_MAX || self.bytes > OFFER_BYTES
    }

    /// Takes the batched entries as an Offer, if there are any.
    pub fn take_offer(&mut self) -> Option<SourceMessage> {
        if self.entries.is_empty() {
            return None;
        }
        self.bytes = 0;
        let first = EntryId(self.next - self.entries.len() as u64);
        Some(SourceMessage::Offer { first, entries: std::mem::take(&mut self.entries) })
    }

    /// Counts the entries of a sent Offer.
    pub fn count_sent(&mut self, entries: usize) {
        self.sent += entries as u64;
    }

    /// Number of entries in sent Offers.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}
