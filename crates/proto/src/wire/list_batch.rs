//! Source arguments sent while a job runs: a list of any length, in batches.
//!
//! The source receives their paths, the target their destinations. A batch counts towards the limit until the source
//! has reported to the target that it offers nothing more of it.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::NAMES_MAX;
use crate::limits::{LISTED_BATCH_BYTES, LISTED_BATCH_MAX, PATH_MAX};
use crate::path::Name;
use crate::wire::names::{decode_names, encode_names};
use crate::wire::names::{decode_optional_name, encode_optional_name};

/// Source arguments that a target may receive while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListedKinds {
    /// None: its Request contains them all.
    #[default]
    No,
    /// Files.
    Files,
    /// Files, and directories with their contents.
    Trees,
}

/// Source arguments with consecutive numbers, for the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBatch {
    /// Number of the first argument.
    pub first: u32,
    /// At most [`LISTED_BATCH_MAX`] paths; the message has at most [`LISTED_BATCH_BYTES`].
    pub paths: Vec<Vec<u8>>,
    /// Whether this is the last batch.
    pub last: bool,
}

/// The same source arguments, for the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationBatch {
    /// Number of the first argument.
    pub first: u32,
    /// Destination of each argument.
    pub places: Vec<OperandDestination>,
}

/// Destination of a source argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperandDestination {
    /// The directories below the path of the Request; missing ones are created.
    pub below: Vec<Name>,
    /// The name there; `None` for a directory's contents.
    pub name: Option<Name>,
}

impl ListedKinds {
    /// Writes the kind.
    pub(super) fn encode(self, out: &mut Writer) {
        out.u8(match self {
            Self::No => 0,
            Self::Files => 1,
            Self::Trees => 2,
        });
    }

    /// Reads the kind.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            0 => Ok(Self::No),
            1 => Ok(Self::Files),
            2 => Ok(Self::Trees),
            value => Err(ProtocolError::Unknown { what: "kind of listed source arguments", value: value.into() }),
        }
    }
}

impl SourceBatch {
    /// Writes the batch.
    pub(super) fn encode(&self, out: &mut Writer) {
        out.u32(self.first).bool(self.last).count(self.paths.len());
        self.paths.iter().for_each(|path| {
            out.bytes(path);
        });
    }

    /// Reads a batch.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        check_size(reader)?;
        let (first, last) = (reader.u32()?, reader.bool()?);
        let count = count_from(reader, first)?;
        let paths = (0..count).map(|_| Ok(reader.bytes(PATH_MAX, "a path")?.to_vec())).collect::<Decoded<_>>()?;
        Ok(Self { first, paths, last })
    }
}

impl DestinationBatch {
    /// Writes the batch.
    pub(super) fn encode(&self, out: &mut Writer) {
        out.u32(self.first).count(self.places.len());
        self.places.iter().for_each(|OperandDestination { below, name }| {
            encode_names(below, out);
            encode_optional_name(name.as_ref(), out);
        });
    }

    /// Reads a batch.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        check_size(reader)?;
        let first = reader.u32()?;
        let count = count_from(reader, first)?;
        let place =
            |_| Ok(OperandDestination { below: decode_names(reader, NAMES_MAX)?, name: decode_optional_name(reader)? });
        Ok(Self { first, places: (0..count).map(place).collect::<Decoded<_>>()? })
    }
}

fn check_size(reader: &Reader<'_>) -> Decoded<()> {
    match reader.remaining() {
        0..=LISTED_BATCH_BYTES => Ok(()),
        _ => Err(ProtocolError::OverLimit("bytes of listed source arguments")),
    }
}

/// Reads the number of arguments and checks that `first` plus that number is in range.
fn count_from(reader: &mut Reader<'_>, first: u32) -> Decoded<usize> {
    let count = reader.count(LISTED_BATCH_MAX, "listed source arguments")?;
    let end = u32::try_from(count).ok().and_then(|count| first.checked_add(count));
    end.map(|_| count).ok_or(ProtocolError::OverLimit("the number of a listed source argument"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn encoded(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::new();
        write(&mut out);
        out.into_bytes()
    }

    #[test]
    fn kinds_come_back() {
        for kinds in [ListedKinds::No, ListedKinds::Files, ListedKinds::Trees] {
            assert_eq!(ListedKinds::decode(&mut Reader::new(&encoded(|out| kinds.encode(out)))), Ok(kinds));
        }
        assert!(ListedKinds::decode(&mut Reader::new(&[3])).is_err());
    }

    #[test]
    fn more_than_a_batch_is_a_fault() {
        let paths = |count, length| SourceBatch { first: 7, paths: vec![vec![b'x'; length]; count], last: false };
        let decoded = |paths: &SourceBatch| SourceBatch::decode(&mut Reader::new(&encoded(|out| paths.encode(out))));
        let most = paths(LISTED_BATCH_MAX, 100);
        assert_eq!(decoded(&most), Ok(most));
        assert_eq!(decoded(&paths(LISTED_BATCH_MAX + 1, 1)), Err(ProtocolError::OverLimit("listed source arguments")));
        assert_eq!(decoded(&paths(5, PATH_MAX)), Err(ProtocolError::OverLimit("bytes of listed source arguments")));
        let last = SourceBatch { first: u32::MAX, ..paths(1, 1) };
        assert_eq!(decoded(&last), Err(ProtocolError::OverLimit("the number of a listed source argument")));

        let place = |at: &str| OperandDestination { below: vec![name(at)], name: None };
        let places = |count| DestinationBatch { first: 0, places: vec![place("a"); count] };
        let decoded =
            |places: &DestinationBatch| DestinationBatch::decode(&mut Reader::new(&encoded(|out| places.encode(out))));
        assert_eq!(decoded(&places(LISTED_BATCH_MAX)), Ok(places(LISTED_BATCH_MAX)));
        assert_eq!(decoded(&places(LISTED_BATCH_MAX + 1)), Err(ProtocolError::OverLimit("listed source arguments")));
    }

    #[test]
    fn a_place_is_made_of_names() {
        let places = DestinationBatch {
            first: 1,
            places: vec![OperandDestination { below: Vec::new(), name: Some(name("a")) }],
        };
        let mut bytes = encoded(|out| places.encode(out));
        assert_eq!(DestinationBatch::decode(&mut Reader::new(&bytes)), Ok(places));
        *bytes.last_mut().unwrap() = b'/';
        assert_eq!(DestinationBatch::decode(&mut Reader::new(&bytes)), Err(ProtocolError::Invalid("an invalid name")));
    }
}
