//! Metadata of the directories between a source argument and its base, which the target recreates.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::copy::display_path::own_name;
use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::EntryExtras;

use crate::fs::{FileStat, lookup};

/// Directories between source arguments and their bases.
#[derive(Default)]
pub struct OperandParents {
    /// Metadata from a directory up to its base, for the latest [`KNOWN_MAX`] directories as they are written.
    known: HashMap<OsString, Vec<EntryMetadata>>,
    /// The directory above the latest source argument.
    latest: PathBuf,
}

const KNOWN_MAX: usize = 1024;

impl OperandParents {
    /// Metadata of the directories above this source argument, nearest first, up to the base or one without permission. Empty if
    /// the directory above it is that of the argument before: it exists at the target by then.
    pub fn metadata(&mut self, base: &[u8], operand: &[u8]) -> Vec<EntryMetadata> {
        let path = Path::new(OsStr::from_bytes(operand));
        // `dir/.` names the contents of `dir`.
        let nearest = if own_name(path).is_some() { path.parent() } else { Some(path) };
        let Some(nearest) = nearest.filter(|nearest| nearest.as_os_str() != self.latest.as_os_str()) else {
            return Vec::new();
        };
        nearest.clone_into(&mut self.latest);
        if let Some(known) = self.known.get(nearest.as_os_str()) {
            return known.clone();
        }
        let is_below = |dir: &&Path| dir.starts_with(OsStr::from_bytes(base));
        let meta = |dir: &Path| lookup::stat(dir).ok().map(|found| FileStat::from(&found).meta);
        let above = nearest.ancestors().take_while(is_below).map_while(meta);
        let above: Vec<_> = above.take(EntryExtras::PARENTS_MAX).collect();
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(nearest.as_os_str().to_owned(), above.clone());
        above
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir_all, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn metadata_starts_at_the_nearest_directory_up_to_the_base() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().join("base");
        create_dir_all(base.join("a/b")).unwrap();
        for (dir, mode) in [("", 0o700), ("a", 0o750), ("a/b", 0o711)] {
            set_permissions(base.join(dir), Permissions::from_mode(mode)).unwrap();
        }
        let bytes = |path: &str| base.join(path).into_os_string().into_encoded_bytes();
        let mut parents = OperandParents::default();
        let base_bytes = base.as_os_str().as_bytes();
        for (operand, expected) in [
            ("a/b/file", &[0o711, 0o750, 0o700][..]),
            ("a/b/other", &[]),
            ("a/b/.", &[0o711, 0o750, 0o700]),
            ("a/b", &[0o750, 0o700]),
            ("a/b/file", &[0o711, 0o750, 0o700]),
            ("file", &[0o700]),
            ("gone/file", &[]),
        ] {
            let modes: Vec<_> = parents.metadata(base_bytes, &bytes(operand)).iter().map(|meta| meta.mode).collect();
            assert_eq!(modes, expected, "{operand}");
        }
        assert_eq!(parents.metadata(base_bytes, temp.path().join("elsewhere/file").as_os_str().as_bytes()), []);
    }
}
