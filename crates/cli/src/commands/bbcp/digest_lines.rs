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
}

impl DigestLines {
    /// Lines about files on `host`, on standard error or appended to a file.
    pub fn new(sink: &DigestSink, host: String) -> anyhow::Result<Self> {
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
        Ok(Self { out, host })
    }

    /// Writes the line of a file.
    pub fn add(&mut self, algorithm: ChecksumAlgorithm, digest: &[u8], path: &Path) -> io::Result<()> {
        let path = escape(path.as_os_str().as_bytes());
        // bbcp prints Adler-32 with the unused half of eight bytes.
        let unused = if algorithm == ChecksumAlgorithm::Adler32 { "00000000" } else { "" };
        let line = format!("{LABEL}{} {}{unused} {}:{path}\n", algorithm.name(), hex(digest), self.host);
        self.out.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_only_to_lists() {
        let dir = tempfile::tempdir().unwrap();
        let sink = DigestSink::Added(dir.path().join("sums"));
        for _ in 0..2 {
            let mut lines = DigestLines::new(&sink, "db1".into()).unwrap();
            lines.add(ChecksumAlgorithm::Md5, &[0xab; 16], Path::new("/t/a\nb")).unwrap();
        }
        let sums = std::fs::read_to_string(dir.path().join("sums")).unwrap();
        assert_eq!(sums, format!("Checksum: md5 {} db1:/t/a\\nb\n", "ab".repeat(16)).repeat(2));
        std::fs::write(dir.path().join("sums"), "a letter\n").unwrap();
        assert!(DigestLines::new(&sink, "db1".into()).is_err());
    }
}
