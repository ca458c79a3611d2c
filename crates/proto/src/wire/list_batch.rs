//! Source arguments sent while a copy runs: a list of any length, in batches.
//!
//! The source receives their paths, the target their destinations. A batch counts towards the limit until the source
//! has reported to the target that it offers nothing more of it.

use crate::codec::{FieldCodec, OfType, Wire, checked_name, wire_enum, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::field_codecs::{ListOf, PATH, list};
use crate::limits::{LISTED_BATCH_BYTES, LISTED_BATCH_MAX, NAMES_MAX};
use crate::path::{MAX_NAME, Name};

wire_enum! {
    /// Source arguments that a target may receive while it runs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum ListedKinds: "kind of listed source arguments" {
        /// None: its Request contains them all.
        #[default]
        No = 0,
        /// Files.
        Files = 1,
        /// Files, and directories with their contents.
        Trees = 2,
    }
}

wire_struct! {
    /// Source arguments with consecutive numbers, for the source.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SourceBatch {
        /// Number of the first argument.
        pub first: u32 as FirstOfBatch,
        /// Whether this is the last batch.
        pub last: bool,
        /// At most [`LISTED_BATCH_MAX`] paths; the message has at most [`LISTED_BATCH_BYTES`].
        pub paths: Vec<Vec<u8>> as list(PATH, LISTED_BATCH_MAX, "listed source arguments"),
    } checked by |batch| check_end(batch.first, batch.paths.len())
}

wire_struct! {
    /// The same source arguments, for the target.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DestinationBatch {
        /// Number of the first argument.
        pub first: u32 as FirstOfBatch,
        /// Destination of each argument.
        pub places: Vec<OperandDestination> as list(OfType, LISTED_BATCH_MAX, "listed source arguments"),
    } checked by |batch| check_end(batch.first, batch.places.len())
}

wire_struct! {
    /// Destination of a source argument.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OperandDestination {
        /// The directories below the path of the Request; missing ones are created.
        pub below: Vec<Name> as names(NAMES_MAX),
        /// The name there; `None` for a directory's contents.
        pub name: Option<Name> as OptionalName,
    }
}

/// Number of the first argument, at the beginning of a batch of limited size.
struct FirstOfBatch;

impl FieldCodec<u32> for FirstOfBatch {
    fn encode(&self, first: &u32, out: &mut Writer) {
        first.encode(out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<u32> {
        match reader.remaining() {
            0..=LISTED_BATCH_BYTES => reader.u32(),
            _ => Err(ProtocolError::OverLimit("bytes of listed source arguments")),
        }
    }
}

fn check_end(first: u32, count: usize) -> Decoded<()> {
    let end = u32::try_from(count).ok().and_then(|count| first.checked_add(count));
    end.map(|_| ()).ok_or(ProtocolError::OverLimit("the number of a listed source argument"))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};
    use crate::codec::{from_bytes, to_bytes};
    use crate::limits::PATH_MAX;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn resent<T: Wire>(batch: &T) -> Decoded<T> {
        from_bytes(&to_bytes(batch))
    }

    #[test]
    fn kinds_round_trip() {
        for kinds in [ListedKinds::No, ListedKinds::Files, ListedKinds::Trees] {
            assert!(refuses::<ListedKinds>(&check_round_trip(&kinds), &[(0, 3)]));
        }
    }

    #[test]
    fn more_than_a_batch_is_a_fault() {
        let paths = |count, length| SourceBatch { first: 7, paths: vec![vec![b'x'; length]; count], last: false };
        let most = paths(LISTED_BATCH_MAX, 100);
        assert_eq!(resent(&most), Ok(most));
        assert_eq!(resent(&paths(LISTED_BATCH_MAX + 1, 1)), Err(ProtocolError::OverLimit("listed source arguments")));
        assert_eq!(resent(&paths(5, PATH_MAX)), Err(ProtocolError::OverLimit("bytes of listed source arguments")));
        let last = SourceBatch { first: u32::MAX, ..paths(1, 1) };
        assert_eq!(resent(&last), Err(ProtocolError::OverLimit("the number of a listed source argument")));

        let place = |at: &str| OperandDestination { below: vec![name(at)], name: None };
        let places = |count| DestinationBatch { first: 0, places: vec![place("a"); count] };
        assert_eq!(resent(&places(LISTED_BATCH_MAX)), Ok(places(LISTED_BATCH_MAX)));
        assert_eq!(resent(&places(LISTED_BATCH_MAX + 1)), Err(ProtocolError::OverLimit("listed source arguments")));
    }

    #[test]
    fn a_place_is_made_of_names() {
        let places = DestinationBatch {
            first: 1,
            places: vec![OperandDestination { below: Vec::new(), name: Some(name("a")) }],
        };
        let mut bytes = check_round_trip(&places);
        *bytes.last_mut().unwrap() = b'/';
        assert_eq!(from_bytes::<DestinationBatch>(&bytes), Err(ProtocolError::Invalid("an invalid name")));
    }
}
