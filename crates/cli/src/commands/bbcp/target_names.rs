//! Names of files at the target, in bbcp's form.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::copy::spec::CopySpec;
use haul_proto::path::escape;

use super::has_one_source;

/// The names of a copy's files at the target.
pub struct TargetNames {
    target: PathBuf,
    /// Parents of the sources: the rest of a source's path is its path at the target.
    parents: Vec<PathBuf>,
    has_one_source: bool,
    /// The last file that the target started.
    last_begun: Option<PathBuf>,
}

impl TargetNames {
    /// The names for a copy.
    pub fn new(copy: &CopySpec) -> Self {
        let parent = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
        let parents = match &copy.options.source.base {
            Some(base) => vec![base.clone()],
            None => copy.sources.iter().map(|source| parent(&source.path)).collect(),
        };
        let target = copy.target.path.clone();
        Self { target, parents, has_one_source: has_one_source(copy), last_begun: None }
    }

    /// Records a file that the target has started. Returns its path, as typed if it is the target.
    pub fn begin(&mut self, path: &Path) -> PathBuf {
        let is_target = path.is_absolute()
            && self.target.is_relative()
            && std::env::current_dir().is_ok_and(|here| here.join(&self.target) == path);
        let path = if is_target { &self.target } else { path };
        self.last_begun = Some(path.to_owned());
        path.to_owned()
    }

    /// Whether the only source may have another name at the target, which is still unknown.
    pub fn is_unknown(&self) -> bool {
        self.has_one_source && self.last_begun.is_none()
    }

    /// A path in bbcp's form: a typed file in the current directory begins with `./`.
    pub fn shown(&self, path: &Path) -> String {
        let prefix = if self.is_in_current_directory(path) { "./" } else { "" };
        format!("{prefix}{}", escape(path.as_os_str().as_bytes()))
    }

    /// The full path of a file at the target. A file with the target's own name is the target.
    pub fn whole(&self, relative: &[u8]) -> PathBuf {
        let relative = Path::new(OsStr::from_bytes(relative));
        match relative.as_os_str().is_empty() || self.target.file_name() == Some(relative.as_os_str()) {
            true => self.target.clone(),
            false => self.target.join(relative),
        }
    }

    /// The file at the target for a digest, which may be reported for the source's path.
    pub fn digested(&self, path: &Path) -> PathBuf {
        if let Some(begun) = self.last_begun.as_ref().filter(|begun| self.has_one_source && **begun == self.target) {
            return begun.clone();
        }
        let parents = self.parents.iter().filter(|parent| !parent.as_os_str().is_empty());
        let below = parents.filter_map(|parent| path.strip_prefix(parent).ok()).next().unwrap_or(path);
        self.whole(below.as_os_str().as_bytes())
    }

    /// Whether it is the typed target, relative to the current directory.
    pub fn is_in_current_directory(&self, path: &Path) -> bool {
        path == self.target && path.is_relative()
    }
}
