//! The target's data about an entry, from its offer to its end.

use crate::fs::Dir;
use crate::receiver::compare::entries::Compared;
use crate::receiver::delete::source_names::SourceNames;
use crate::receiver::file::ReceivingFile;
use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::ExtendedAttribute;

/// The target's data about an entry.
#[allow(clippy::large_enum_variant, reason = "each lies in an Arc of its own, and most of them are files")]
pub enum ReceiverEntry {
    /// A directory.
    Directory {
        /// The created or existing directory; a dry run may only plan it.
        dir: Dir,
        /// Created in this run, hence still empty.
        fresh: bool,
        /// The source's names in it, for the removal of extraneous entries.
        names: Option<SourceNames>,
        /// Metadata to set once it is complete.
        meta: EntryMetadata,
        /// Extended attributes to set then, if preserved.
        attributes: Option<Box<[ExtendedAttribute]>>,
    },
    /// A wanted file.
    File(ReceivingFile),
    /// A hard link.
    HardLink,
    /// An existing entry that is only compared.
    Compared(Compared),
}
