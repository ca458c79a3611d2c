//! Periodic activity report of a source: its files in flight and the paths of its streams.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::{LINKS_MAX, STREAM_FIGURES_MAX, TEXT_MAX};

/// Activity of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceActivity {
    /// Number of files sent on streams and not complete.
    pub files_under_way: u64,
    /// Paths of its streams: address and port of the source's end and of the target's.
    pub paths: Vec<(String, String)>,
    /// Its streams, without those given up.
    pub streams: Vec<StreamPath>,
}

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

impl SourceActivity {
    pub(super) fn encode(&self, out: &mut Writer) {
        let paths = &self.paths[..self.paths.len().min(LINKS_MAX)];
        out.varint(self.files_under_way).count(paths.len());
        for (own, other) in paths {
            out.text(own, TEXT_MAX).text(other, TEXT_MAX);
        }
        let is_told = |way: &&StreamPath| usize::from(way.path) < paths.len();
        let streams: Vec<_> = self.streams.iter().filter(is_told).take(STREAM_FIGURES_MAX).collect();
        out.count(streams.len());
        for StreamPath { stream, path, in_use } in streams {
            out.u16(*stream).u8(*path).bool(*in_use);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let files_under_way = reader.varint()?;
        let count = reader.count(LINKS_MAX, "paths")?;
        let mut text = || reader.text(TEXT_MAX, "a text");
        let paths = (0..count).map(|_| Ok((text()?, text()?))).collect::<Decoded<Vec<_>>>()?;
        let count = reader.count(STREAM_FIGURES_MAX, "paths of streams")?;
        let way = |_| {
            let (stream, path, in_use) = (reader.u16()?, reader.u8()?, reader.bool()?);
            match usize::from(path) < paths.len() {
                true => Ok(StreamPath { stream, path, in_use }),
                false => Err(ProtocolError::Unknown { what: "path of a stream", value: path.into() }),
            }
        };
        let streams = (0..count).map(way).collect::<Decoded<Vec<_>>>()?;
        Ok(Self { files_under_way, paths, streams })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(work: &SourceActivity) -> Vec<u8> {
        let mut out = Writer::new();
        work.encode(&mut out);
        out.into_bytes()
    }

    #[test]
    fn a_path_that_was_not_told_is_a_fault() {
        let way = StreamPath { stream: 7, path: 0, in_use: true };
        let work = SourceActivity { files_under_way: 3, paths: vec![("a:1".into(), "b:2".into())], streams: vec![way] };
        let mut bytes = encoded(&work);
        assert_eq!(SourceActivity::decode(&mut Reader::new(&bytes)), Ok(work));
        let path = bytes.len() - 2;
        bytes[path] = 1;
        assert!(SourceActivity::decode(&mut Reader::new(&bytes)).is_err());
    }

    #[test]
    fn what_there_is_too_much_of_is_left_out() {
        let path = |number: usize| (format!("a:{number}"), "b:2".to_owned());
        let way = |number: u16| StreamPath { stream: number, path: (number % 16) as u8, in_use: false };
        let all = SourceActivity {
            files_under_way: 0,
            paths: (0..16).map(path).collect(),
            streams: (0..2000).map(way).collect(),
        };
        let told = SourceActivity::decode(&mut Reader::new(&encoded(&all))).unwrap();
        assert_eq!((told.paths.len(), told.streams.len()), (LINKS_MAX, STREAM_FIGURES_MAX));
        assert!(told.streams.iter().all(|way| usize::from(way.path) < LINKS_MAX));
    }
}
