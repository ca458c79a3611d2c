//! Periodic activity report of a source: its files in flight and the paths of its streams.

use crate::codec::{FieldCodec, OfType, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::field_codecs::{ListOf, TEXT, Varint, first_of};
use crate::limits::{LINKS_MAX, STREAM_FIGURES_MAX};

wire_struct! {
    /// Activity of a source.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct SourceActivity {
        /// Number of files sent on streams and not complete.
        pub files_in_progress: u64 as Varint,
        /// Paths of its streams: address and port of the source's end and of the target's.
        pub paths: Vec<(String, String)> as first_of((TEXT, TEXT), LINKS_MAX, "paths"),
        /// Its streams, without those given up.
        pub streams: Vec<StreamPath> as StreamsOfPaths(paths.len().min(LINKS_MAX)),
    }
}

wire_struct! {
    /// Path of one stream.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct StreamPath {
        /// Number of the stream.
        pub stream: u16,
        /// Index of its path in [`SourceActivity::paths`].
        pub path: u8,
        /// Whether it receives work; otherwise it is idle.
        pub in_use: bool,
    }
}

/// Streams on so many paths. The writer leaves out others.
struct StreamsOfPaths(usize);

impl StreamsOfPaths {
    const LIST: ListOf<OfType> = first_of(OfType, STREAM_FIGURES_MAX, "paths of streams");

    fn is_told(&self, stream: &StreamPath) -> bool {
        usize::from(stream.path) < self.0
    }
}

impl FieldCodec<Vec<StreamPath>> for StreamsOfPaths {
    fn encode(&self, streams: &Vec<StreamPath>, out: &mut Writer) {
        Self::LIST.encode(&streams.iter().copied().filter(|stream| self.is_told(stream)).collect(), out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Vec<StreamPath>> {
        let streams: Vec<StreamPath> = Self::LIST.decode(reader)?;
        match streams.iter().find(|stream| !self.is_told(stream)) {
            Some(stream) => Err(ProtocolError::Unknown { what: "path of a stream", value: stream.path.into() }),
            None => Ok(streams),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};
    use crate::codec::{from_bytes, to_bytes};

    #[test]
    fn an_undeclared_path_is_a_fault() {
        let path = StreamPath { stream: 7, path: 0, in_use: true };
        let work =
            SourceActivity { files_in_progress: 3, paths: vec![("a:1".into(), "b:2".into())], streams: vec![path] };
        let bytes = check_round_trip(&work);
        assert!(refuses::<SourceActivity>(&bytes, &[(bytes.len() - 2, 1)]));
    }

    #[test]
    fn excess_entries_are_dropped() {
        let path = |number: usize| (format!("a:{number}"), "b:2".to_owned());
        let idle = |number: u16| StreamPath { stream: number, path: (number % 16) as u8, in_use: false };
        let all = SourceActivity {
            files_in_progress: 0,
            paths: (0..16).map(path).collect(),
            streams: (0..2000).map(idle).collect(),
        };
        let told = from_bytes::<SourceActivity>(&to_bytes(&all)).unwrap();
        assert_eq!((told.paths.len(), told.streams.len()), (LINKS_MAX, STREAM_FIGURES_MAX));
        assert!(told.streams.iter().all(|path| usize::from(path.path) < LINKS_MAX));
    }
}
