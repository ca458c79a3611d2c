//! Files at the target, as bbcp names them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::job::spec::Job;
use haul_proto::path::escape;

use super::has_one_source;

/// The names of a job's files at the target.
pub struct TargetNames {
    target: PathBuf,
    /// Parents of the sources: the rest of a source's path is its path below the target.
    parents: Vec<PathBuf>,
    has_one_source: bool,
    /// The last file that the target began.
    last_begun: Option<PathBuf>,
}

impl TargetNames {
    /// Of a job.
    pub fn new(job: &Job) -> Self {
        let parent = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
        let parents = match &job.options.source.base {
            Some(base) => vec![base.clone()],
            None => job.sources.iter().map(|source| parent(&source.path)).collect(),
        };
        let target = job.target.path.clone();
        Self { target, parents, has_one_source: has_one_source(job), last_begun: None }
    }

    /// Takes the name of a file that the target begins.
    pub fn begin(&mut self, path: &Path) {
        self.last_begun = Some(path.to_owned());
    }

    /// Whether the only source may have got another name, which the target has not said yet.
    pub fn is_unknown(&self) -> bool {
        self.has_one_source && self.last_begun.is_none()
    }

    /// A path as bbcp shows it: a typed file in the current directory begins with `./`.
    pub fn shown(&self, path: &Path) -> String {
        let prefix = if self.is_in_current_directory(path) { "./" } else { "" };
        format!("{prefix}{}", escape(path.as_os_str().as_bytes()))
    }

    /// The whole path of a file below the target. A file that got the target's own name is the target.
    pub fn whole(&self, relative: &[u8]) -> PathBuf {
        let relative = Path::new(OsStr::from_bytes(relative));
        match self.target.file_name() == Some(relative.as_os_str()) {
            true => self.target.clone(),
            false => self.target.join(relative),
        }
    }

    /// The file at the target with a digest: the engine names the source's, where the digest is of that.
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
