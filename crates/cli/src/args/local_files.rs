//! What the command line's parser asks about local files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;

use crate::slips::forgotten_colon;

/// Local files.
pub trait LocalFiles {
    /// Whether an entry has this name.
    fn exists(&self, name: &OsStr) -> bool;

    /// Whether this is a file with a private key for ssh.
    fn is_private_key(&self, name: &OsStr) -> bool;

    /// Whether ssh's files name a host like this.
    fn is_known_host(&self, _: &OsStr) -> bool {
        false
    }
}

/// The files of this host.
pub struct LocalDisk;

impl LocalFiles for LocalDisk {
    fn exists(&self, name: &OsStr) -> bool {
        std::fs::symlink_metadata(name).is_ok()
    }

    fn is_private_key(&self, name: &OsStr) -> bool {
        let is_file = std::fs::metadata(name).is_ok_and(|meta| meta.is_file());
        let mut start = [0; 64];
        let read = is_file.then(|| File::open(name).and_then(|mut file| file.read(&mut start)).ok()).flatten();
        let line = &start[..read.unwrap_or(0)];
        line.starts_with(b"-----BEGIN ") && line.windows(11).any(|words| words == b"PRIVATE KEY")
    }

    fn is_known_host(&self, name: &OsStr) -> bool {
        forgotten_colon(name, None).is_some()
    }
}

/// A place without files.
pub struct NoFiles;

impl LocalFiles for NoFiles {
    fn exists(&self, _: &OsStr) -> bool {
        false
    }

    fn is_private_key(&self, _: &OsStr) -> bool {
        false
    }
}

/// Names of files without contents.
#[cfg(test)]
impl<F: Fn(&OsStr) -> bool> LocalFiles for F {
    fn exists(&self, name: &OsStr) -> bool {
        self(name)
    }

    fn is_private_key(&self, name: &OsStr) -> bool {
        name == "key"
    }
}

/// A directory with a file of each short plain name, as tests type them; `key` is a private key.
#[cfg(test)]
pub struct PlainFiles;

#[cfg(test)]
impl LocalFiles for PlainFiles {
    fn exists(&self, name: &OsStr) -> bool {
        name.len() <= 4 && name.as_encoded_bytes().iter().all(u8::is_ascii_lowercase)
    }

    fn is_private_key(&self, name: &OsStr) -> bool {
        name == "key"
    }
}
