//! An executable of haul: its hash, its portability, and its transfer.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use haul_proto::checksum::hex;

use super::elf;
use super::script::Deployable;
use super::verified_executable::{VerifiedExecutable, identity};

/// Bytes of one read.
const CHUNK: usize = 256 * 1024;

/// An executable held open, so that the bytes sent are those hashed, even after a rename.
#[derive(Debug)]
pub(super) struct Executable {
    file: File,
    size: u64,
    sha256: String,
    system: Option<String>,
}

impl Executable {
    /// Opens `path` and hashes the file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?)
    }

    /// Opens `path`, and hashes the file unless `known` is about this very file.
    pub(super) fn open_known(path: &Path, known: &VerifiedExecutable) -> io::Result<Self> {
        let file = File::open(path)?;
        let found = file.metadata()?;
        let identity = identity(&found);
        if let Some(sha256) = known.sha256_of(&identity) {
            let system = system_of(&file)?;
            return Ok(Self { file, size: found.len(), sha256, system });
        }
        let executable = Self::of(file)?;
        known.write(&format!("{} {identity}", executable.sha256));
        Ok(executable)
    }

    /// Hashes an open file.
    pub(super) fn of(mut file: File) -> io::Result<Self> {
        let system = system_of(&file)?;
        let (size, sha256) = hash(&mut file)?;
        Ok(Self { file, size, sha256, system })
    }

    /// Returns the SHA-256 hash as 64 hexadecimal digits.
    #[cfg(test)]
    pub(super) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Describes it for hosts of its system; `None` if it only runs here.
    pub(super) fn deployable(&self) -> Option<Deployable<'_>> {
        Some(Deployable { system: self.system()?, sha256: &self.sha256, size: self.size })
    }

    /// Returns `uname -s` and `uname -m` of compatible hosts; `None` if it only runs here.
    pub(super) fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Writes the whole executable.
    pub(super) fn send(&mut self, to: &mut impl Write) -> io::Result<()> {
        self.file.rewind()?;
        let mut chunk = vec![0; CHUNK];
        let mut left = self.size;
        while left > 0 {
            let wanted = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            self.file.read_exact(&mut chunk[..wanted])?;
            to.write_all(&chunk[..wanted])?;
            left -= wanted as u64;
        }
        to.flush()
    }

    /// Overrides the compatible system, so that a test can send a script.
    #[cfg(test)]
    pub(super) fn pretend_system(&mut self, system: &str) {
        self.system = Some(system.to_owned());
    }
}

/// `uname -s` and `uname -m` of the hosts that it runs on, if it is static.
fn system_of(mut file: &File) -> io::Result<Option<String>> {
    let mut head = Vec::with_capacity(elf::HEAD);
    file.take(elf::HEAD as u64).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(elf::machine_of_static(&head).map(|machine| format!("Linux {machine}")))
}

/// Whether the executable at `path` has the SHA-256 hash `hex` (64 hexadecimal digits), for `haul worker --verify`.
pub fn verify_own_executable(path: &Path, hex: &str) -> bool {
    File::open(path).and_then(|mut file| hash(&mut file)).is_ok_and(|(_, found)| found.eq_ignore_ascii_case(hex))
}

/// Returns size and SHA-256 of the rest of `file`.
fn hash(file: &mut File) -> io::Result<(u64, String)> {
    let (mut size, mut sha256) = (0, Context::new(&SHA256));
    read_chunks(file, |chunk| {
        size += chunk.len() as u64;
        sha256.update(chunk);
    })?;
    Ok((size, hex(sha256.finish().as_ref())))
}

/// Passes the rest of `file` to `show`, chunk by chunk.
fn read_chunks(file: &mut File, mut show: impl FnMut(&[u8])) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => show(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_file_is_hashed_again_only_after_it_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, known) = (directory.path().join("haul"), VerifiedExecutable::of_this_host(directory.path()));
        std::fs::write(&path, "one").unwrap();
        let sha256 = |known| Executable::open_known(&path, known).unwrap().sha256;
        let (first, none) = (sha256(&known), VerifiedExecutable::default());
        assert_eq!(first, sha256(&none));
        // What is recorded is believed of this file, and of no other.
        let found = std::fs::metadata(&path).unwrap();
        known.write(&format!("{} {}", "a".repeat(64), identity(&found)));
        assert_eq!(sha256(&known), "a".repeat(64));
        let executable = Executable::open_known(&path, &known).unwrap();
        assert_eq!(executable.size, 3);
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, "two").unwrap();
        assert_eq!(sha256(&known), sha256(&none));
        known.write(&format!("short {}", identity(&std::fs::metadata(&path).unwrap())));
        assert_eq!(sha256(&known), sha256(&none));
    }

    #[test]
    fn the_executable_is_hashed_and_sent_completely() {
        let mut temp = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(2 * CHUNK + 777).collect();
        temp.write_all(&bytes).unwrap();
        let mut executable = Executable::open(temp.path()).unwrap();
        assert_eq!(executable.size, bytes.len() as u64);
        assert_eq!(executable.sha256().len(), 64);
        assert_eq!(executable.system(), None, "it is no executable at all");
        let mut sent = Vec::new();
        executable.send(&mut sent).unwrap();
        assert_eq!(sent, bytes);
    }

    #[test]
    fn sha256_is_the_standards() {
        let mut temp = tempfile::NamedTempFile::new().unwrap();
        temp.write_all(b"abc").unwrap();
        // Example of FIPS 180-4.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Executable::open(temp.path()).unwrap().sha256(), expected);
    }

    #[test]
    fn a_shrunken_file_is_not_sent_as_complete() {
        let mut temp = tempfile::NamedTempFile::new().unwrap();
        temp.write_all(&[7; 5000]).unwrap();
        let mut executable = Executable::open(temp.path()).unwrap();
        temp.as_file().set_len(4999).unwrap();
        assert_eq!(executable.send(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn verification_needs_the_right_hash_of_a_readable_file() {
        let mut temp = tempfile::NamedTempFile::new().unwrap();
        temp.write_all(b"abc").unwrap();
        let right = Executable::open(temp.path()).unwrap().sha256().to_owned();
        assert!(verify_own_executable(temp.path(), &right));
        assert!(verify_own_executable(temp.path(), &right.to_uppercase()));
        assert!(!verify_own_executable(temp.path(), &right[1..]));
        assert!(!verify_own_executable(temp.path(), &right.replacen('b', "c", 1)));
        assert!(!verify_own_executable(Path::new("/nonexistent/haul"), &right));
    }
}
