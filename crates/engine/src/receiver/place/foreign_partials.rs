//! Partial files of another program: rsync's, of `--partial-dir` and `--delay-updates`. Nothing resumes them; they go
//! once their file is complete.

use haul_proto::path::Name;
use rustix::fs::{AtFlags, unlinkat};

use crate::receiver::place::target_path::TargetPath;

/// Removes the partial file of a complete one from `directory` beside it, and the directory once that is empty. What
/// cannot be removed stays.
pub fn remove_foreign_partial(path: &TargetPath, directory: &[u8]) {
    let Ok(name) = Name::new(directory) else { return };
    let Ok(partials) = path.dir.child(&name) else { return };
    let (Ok(inside), Ok(above)) = (partials.fd(), path.dir.fd()) else { return };
    let _ = unlinkat(&*inside, path.name.as_bytes(), AtFlags::empty());
    let _ = unlinkat(&*above, name.as_bytes(), AtFlags::REMOVEDIR);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fs::Dir;

    #[test]
    fn a_complete_files_partial_goes_with_its_empty_directory() {
        let temp = tempfile::tempdir().unwrap();
        let name = |name: &str| Name::new(name.as_bytes()).unwrap();
        fs::create_dir(temp.path().join(".parts")).unwrap();
        for file in [".parts/a", ".parts/b"] {
            fs::write(temp.path().join(file), "partial").unwrap();
        }
        let dir = Dir::open_root(temp.path()).unwrap();
        let remove = |file| {
            let path = TargetPath { dir: dir.clone(), name: name(file), replaces: false };
            [".parts", "..", "a/b"].iter().for_each(|directory| remove_foreign_partial(&path, directory.as_bytes()));
        };
        remove("a");
        assert!(!temp.path().join(".parts/a").exists() && temp.path().join(".parts/b").exists());
        remove("b");
        assert!(!temp.path().join(".parts").exists());
    }
}
