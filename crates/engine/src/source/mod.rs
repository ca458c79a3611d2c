//! The source's end of a copy: walks, offers, reads and sends.
//!
//! [`Source`] holds the protocol's state machine behind a lock, and the notifications of its threads (`session`). One
//! thread walks (`offers`), one sends messages, and one for each stream reads and sends frames (`stream_sender`).

mod attributes;
mod checksums;
mod delta;
mod digest;
mod entry;
mod exclusions;
pub mod expansion;
mod flow_feed;
mod flow_frames;
pub mod frame_sink;
mod hard_links;
mod input_file;
mod list_batches;
mod offers;
mod operand_parents;
mod operands;
mod own_unlinks;
mod owners;
mod path;
mod removable;
mod removal;
mod sent_audit;
mod session;
mod small_files;
mod source_removal;
mod state;
mod stream_sender;
mod stream_work;
#[cfg(test)]
mod tests;

pub use self::operands::origin;
pub use self::session::Source;
