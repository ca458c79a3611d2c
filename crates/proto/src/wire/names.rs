//! Names of files in messages.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::path::{MAX_NAME, Name};

/// Writes names, of a path or otherwise.
pub(super) fn encode_names(names: &[Name], out: &mut Writer) {
    out.count(names.len());
    names.iter().for_each(|name| {
        out.bytes(name.as_bytes());
    });
}

/// Reads at most `most` names.
pub(super) fn decode_names(reader: &mut Reader<'_>, most: usize) -> Decoded<Vec<Name>> {
    let count = reader.count(most, "names")?;
    let name = |bytes| Name::new(bytes).map_err(|_| ProtocolError::Invalid("an invalid name"));
    (0..count).map(|_| name(reader.bytes(MAX_NAME, "a name")?)).collect()
}

/// Writes the optional name of a source argument.
pub(super) fn encode_optional_name(name: Option<&Name>, out: &mut Writer) {
    out.bytes(name.map_or(&[][..], Name::as_bytes));
}

/// Reads the optional name of a source argument.
pub(super) fn decode_optional_name(reader: &mut Reader<'_>) -> Decoded<Option<Name>> {
    match reader.bytes(MAX_NAME, "a name")? {
        [] => Ok(None),
        bytes => Name::new(bytes).map(Some).map_err(|_| ProtocolError::Invalid("an invalid name")),
    }
}
