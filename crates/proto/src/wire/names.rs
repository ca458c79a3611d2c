//! Names of files in messages.

use crate::codec::{FieldCodec, OfType, checked_name};
use crate::encoding::{Decoded, Reader, Writer};
use crate::field_codecs::{ListOf, list};
use crate::path::{MAX_NAME, Name};

/// Returns the codec of at most `most` names, of a path or otherwise.
pub(super) const fn names(most: usize) -> ListOf<OfType> {
    list(OfType, most, "names")
}

/// The optional name of a source argument: an empty one stands for `None`.
pub(super) struct OptionalName;

impl FieldCodec<Option<Name>> for OptionalName {
    fn encode(&self, name: &Option<Name>, out: &mut Writer) {
        out.bytes(name.as_ref().map_or(&[][..], Name::as_bytes));
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Option<Name>> {
        match reader.bytes(MAX_NAME, "a name")? {
            [] => Ok(None),
            bytes => checked_name(bytes).map(Some),
        }
    }
}
