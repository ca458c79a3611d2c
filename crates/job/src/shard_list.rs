//! The paths of a shard: each ends with NUL and begins with `./`, compressed with zstd.
//!
//! `zstd -dc LIST | haul sync --infiles - --null --dirbase BASE TARGET` takes such a list. The `./` keeps a name with a
//! colon from being a host.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use haul_base::held_directory::UnnamedFile;
use haul_proto::limits::PATH_MAX;
use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

use crate::error::JobError;
use crate::job_file::JobFile;

const LEVEL: i32 = 3;
/// Size of the buffer for compression.
const BUFFER: usize = 64 << 10;

/// Writes a list.
pub struct ShardListWriter {
    encoder: Encoder<'static, UnnamedFile>,
    buffer: Vec<u8>,
    list: JobFile,
    /// Paths so far.
    pub files: u64,
    /// Bytes of the files so far.
    pub bytes: u64,
}

impl ShardListWriter {
    /// Creates a list.
    pub fn create(list: JobFile) -> Result<Self, JobError> {
        let encoder = Encoder::new(list.create_unnamed()?, LEVEL);
        let encoder = encoder.map_err(|error| JobError::io(list.path(), &error))?;
        Ok(Self { encoder, buffer: Vec::with_capacity(BUFFER), list, files: 0, bytes: 0 })
    }

    /// Adds a file of `bytes` by its path below the base.
    pub fn add(&mut self, path: &[u8], bytes: u64) -> Result<(), JobError> {
        self.buffer.extend_from_slice(b"./");
        self.buffer.extend_from_slice(path);
        self.buffer.push(0);
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Publishes the list.
    pub fn finish(mut self) -> Result<(), JobError> {
        self.flush()?;
        let written = self.encoder.finish().map_err(|error| JobError::io(self.list.path(), &error))?;
        self.list.publish(written)
    }

    fn flush(&mut self) -> Result<(), JobError> {
        let written = self.encoder.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|error| JobError::io(self.list.path(), &error))
    }
}

/// Reads a list from its beginning.
pub struct ShardListReader {
    decoder: BufReader<Decoder<'static, BufReader<File>>>,
    /// The latest line.
    line: Vec<u8>,
}

impl ShardListReader {
    /// Opens a list.
    pub fn open(list: &JobFile) -> io::Result<Self> {
        Ok(Self { decoder: BufReader::with_capacity(BUFFER, Decoder::new(list.open()?)?), line: Vec::new() })
    }
}

impl Iterator for ShardListReader {
    type Item = io::Result<Vec<u8>>;

    /// The next path below the base, without `./`.
    fn next(&mut self) -> Option<Self::Item> {
        self.line.clear();
        match io::Read::take(&mut self.decoder, PATH_MAX as u64 + 3).read_until(0, &mut self.line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        let path = self.line.strip_suffix(b"\0").and_then(|path| path.strip_prefix(b"./"));
        Some(path.map(<[u8]>::to_vec).ok_or_else(|| io::Error::other("this is not a list of a shard")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::JobDirectory;

    fn list() -> (tempfile::TempDir, JobFile) {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        (temp, job.list(0))
    }

    #[test]
    fn any_name_round_trips() {
        let (_temp, path) = list();
        let names: Vec<Vec<u8>> =
            [&b"plain"[..], b"h:a", b"a/new\nline", b"\xff\xfe", b"-r"].into_iter().map(<[u8]>::to_vec).collect();
        let many = (0..30_000).map(|number| format!("dir/{number}").into_bytes());
        let names: Vec<_> = names.into_iter().chain(many).collect();
        let mut list = ShardListWriter::create(path.clone()).unwrap();
        names.iter().for_each(|name| list.add(name, 2).unwrap());
        assert_eq!((list.files, list.bytes), (names.len() as u64, 2 * names.len() as u64));
        assert!(!path.exists());
        list.finish().unwrap();
        let read: io::Result<Vec<_>> = ShardListReader::open(&path).unwrap().collect();
        assert_eq!(read.unwrap(), names);
    }

    #[test]
    fn a_damaged_list_is_an_error() {
        let (_temp, path) = list();
        let mut list = ShardListWriter::create(path.clone()).unwrap();
        (0..50_000).for_each(|number: u32| list.add(format!("{number}").as_bytes(), 0).unwrap());
        list.finish().unwrap();
        let whole = std::fs::read(path.path()).unwrap();
        path.replace(&whole[..whole.len() / 2]).unwrap();
        assert!(ShardListReader::open(&path).unwrap().any(|path| path.is_err()));
        path.replace(&zstd::encode_all(&b"no list"[..], 1).unwrap()).unwrap();
        assert!(ShardListReader::open(&path).unwrap().any(|path| path.is_err()));
    }
}
