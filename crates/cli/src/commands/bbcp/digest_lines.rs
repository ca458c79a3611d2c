//! bbcp's lines of checksums (`-E ALG=` and `-E ALG=FILE`): `Checksum: md5 VALUE HOST:/path`.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::copy::spec::ChecksumAlgorithm;
use haul_base::sys::describe::describe;
use haul_proto::checksum::hex;
use haul_proto::path::escape;
use haul_show::pending::ReplaceableFile;

use crate::resolve::DigestSink;

const LABEL: &str = "Checksum: ";

/// Destination of the lines.
pub struct DigestLines {
    out: Box<dyn Write>,
    host: String,
    at_source: bool,
}

impl DigestLines {
    /// Lines about files on `host`, on standard error or appended to a file. `at_source`: with `-E %ALG`.
    pub fn new(sink: &DigestSink, host: String, at_source: bool) -> anyhow::Result<Self> {
        let out: Box<dyn Write> = match sink {
            DigestSink::Shown => Box::new(io::stderr()),
            DigestSink::Added(path) => Box::new(
                ReplaceableFile::Checksums
                    .open_to_append(path, |beginning| beginning.starts_with(LABEL.as_bytes()))
                    .map_err(|error| {
                        anyhow::anyhow!("--checksum {}: {}", escape(path.as_os_str().as_bytes()), describe(&error))
                    })?,
            ),
        };
        Ok(Self { out, host, at_source })
    }

    /// Writes the line of a file.
    pub fn add(&mut self, algorithm: ChecksumAlgorithm, digest: &[u8], path: &Path) -> io::Result<()> {
        let path = escape(path.as_os_str().as_bytes());
        // bbcp prints the Adler-32 of a target with the unused half of eight bytes.
        let is_padded = algorithm == ChecksumAlgorithm::Adler32 && !self.at_source;
        let unused = if is_padded { "00000000" } else { "" };
        let line = format!("{LABEL}{} {}{unused} {}:{path}\n", algorithm.name(), hex(digest), self.host);
        self.out.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adler_32_has_bbcps_length_at_each_end() {
        for (at_source, value) in [(true, "01020304"), (false, "0102030400000000")] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("sums");
            let mut lines = DigestLines::new(&DigestSink::Added(path.clone()), "db1".into(), at_source).unwrap();
            lines.add(ChecksumAlgorithm::Adler32, &[1, 2, 3, 4], Path::new("/a")).unwrap();
            assert_eq!(std::fs::read_to_string(path).unwrap(), format!("Checksum: a32 {value} db1:/a\n"));
        }
    }

    #[test]
    fn lines_are_appended_only_to_lists() {
        let dir = tempfile::tempdir().unwrap();
        let sink = DigestSink::Added(dir.path().join("sums"));
        for _ in 0..2 {
            let mut lines = DigestLines::new(&sink, "db1".into(), false).unwrap();
            lines.add(ChecksumAlgorithm::Md5, &[0xab; 16], Path::new("/t/a\nb")).unwrap();
        }
        let sums = std::fs::read_to_string(dir.path().join("sums")).unwrap();
        assert_eq!(sums, format!("Checksum: md5 {} db1:/t/a\\nb\n", "ab".repeat(16)).repeat(2));
        std::fs::write(dir.path().join("sums"), "a letter\n").unwrap();
        assert!(DigestLines::new(&sink, "db1".into(), false).is_err());
    }
}
