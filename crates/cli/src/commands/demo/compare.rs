//! Compares two trees without help from the engine: every name, and BLAKE3 of every file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, anyhow, bail};
use haul_base::sys::cancel::Cancel;

/// Entries below a root by relative path: the digest of a file, nothing for a directory.
type DemoTree = BTreeMap<PathBuf, Option<blake3::Hash>>;

/// Bytes read at a time.
const BLOCK: usize = 1 << 20;

/// Fails with the first difference, or as [`io::ErrorKind::Interrupted`] once `cancel` is set.
pub fn compare(source: &Path, target: &Path, cancel: &Cancel) -> anyhow::Result<()> {
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| tree(target, cancel));
        (tree(source, cancel), theirs.join())
    });
    let (ours, theirs) = (ours?, theirs.map_err(|_| anyhow!("{}: cannot be read", target.display()))??);
    for (path, digest) in &ours {
        match theirs.get(path) {
            None => bail!("{}: missing at the target", path.display()),
            Some(other) if other != digest => bail!("{}: differs at the target", path.display()),
            Some(_) => {}
        }
    }
    match theirs.keys().find(|path| !ours.contains_key(*path)) {
        Some(path) => bail!("{}: extraneous at the target", path.display()),
        None => Ok(()),
    }
}

fn tree(root: &Path, cancel: &Cancel) -> anyhow::Result<DemoTree> {
    let mut tree = DemoTree::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let shown = root.join(&directory);
        for entry in fs::read_dir(&shown).with_context(|| shown.display().to_string())? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                tree.insert(path.clone(), None);
                directories.push(path);
            } else {
                let digest = digest(&entry.path(), cancel).with_context(|| entry.path().display().to_string())?;
                tree.insert(path, Some(digest));
            }
        }
    }
    Ok(tree)
}

fn digest(path: &Path, cancel: &Cancel) -> io::Result<blake3::Hash> {
    let (mut file, mut hasher) = (File::open(path)?, blake3::Hasher::new());
    let mut block = vec![0; BLOCK];
    while !cancel.is_cancelled() {
        match file.read(&mut block)? {
            0 => return Ok(hasher.finalize()),
            bytes => hasher.update(&block[..bytes]),
        };
    }
    Err(io::ErrorKind::Interrupted.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        for root in [&a, &b] {
            fs::create_dir_all(root.join("d/e")).unwrap();
            fs::write(root.join("d/f"), "same").unwrap();
        }
        let difference = || compare(&a, &b, &Cancel::new()).map_err(|error| error.to_string());
        assert_eq!(difference(), Ok(()));
        fs::write(b.join("d/f"), "sane").unwrap();
        assert_eq!(difference(), Err("d/f: differs at the target".into()));
        fs::write(b.join("d/f"), "same").unwrap();
        fs::write(b.join("g"), "").unwrap();
        assert_eq!(difference(), Err("g: extraneous at the target".into()));
        fs::remove_file(b.join("g")).unwrap();
        fs::remove_dir(b.join("d/e")).unwrap();
        assert_eq!(difference(), Err("d/e: missing at the target".into()));
        fs::write(b.join("d/e"), "").unwrap();
        assert_eq!(difference(), Err("d/e: differs at the target".into()));
        let cancel = Cancel::new();
        cancel.cancel();
        assert!(compare(&a, &b, &cancel).is_err());
    }
}
