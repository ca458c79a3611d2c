//! Drops files from the page cache, so that a measurement reads the disk instead of memory. Best effort: mapped pages
//! and pages in use by other processes may remain.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::io::storage::cache::drop_pages;

/// Most files to handle.
const FILES_MAX: usize = 20_000;

/// Drops the file `path`, or the files below the directory `path`. An absent path is an error.
pub fn evict_pages(path: &Path) -> io::Result<()> {
    fs::metadata(path)?;
    let mut left = vec![path.to_owned()];
    let mut files = 0;
    while let Some(path) = left.pop().filter(|_| files < FILES_MAX) {
        // The argument may be a link; links below it are not followed.
        let Ok(found) = (if files == 0 { fs::metadata(&path) } else { fs::symlink_metadata(&path) }) else { continue };
        files += 1;
        if found.is_dir() {
            left.extend(entries(&path).take(FILES_MAX - left.len().min(FILES_MAX)));
        } else if found.is_file() {
            drop_file(&path, found.len());
        }
    }
    Ok(())
}

fn entries(path: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn drop_file(path: &Path, size: u64) {
    let Ok(file) = File::open(path) else { return };
    // Dirty pages cannot be dropped.
    let _ = file.sync_data();
    drop_pages(&file, 0, size);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::storage::cache::is_cached;

    #[test]
    fn cached_pages_are_evicted() {
        // The directory for temporary files may be in memory.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("below/file");
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let cached = || is_cached(File::open(&path).unwrap(), 0, 1 << 20);
        if !cached() {
            println!("SKIPPED: this kernel, or this file system, does not say what is cached");
            return;
        }
        evict_pages(dir.path()).unwrap();
        assert!(!cached());
        assert_eq!(evict_pages(&dir.path().join("another")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
