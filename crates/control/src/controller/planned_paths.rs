//! The paths of a plan's copies as a list of sources.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use haul_base::copy::list::{ListLine, ListReader, SourceList};
use haul_base::copy::location::{Host, Location};
use haul_proto::twoway::entry::TreePath;

/// Returns a list of `paths`, which are relative to the root.
pub fn list_of(host: Host, paths: Vec<TreePath>) -> SourceList {
    let paths = Arc::new(paths);
    let of_lines = host.clone();
    let open = Arc::new(move || {
        let lines = PathLines { host: of_lines.clone(), paths: Arc::clone(&paths), next: 0 };
        Box::new(lines) as Box<dyn ListReader>
    });
    SourceList { name: "the plan".into(), host, open }
}

/// The paths of copies as a list of sources, relative to the root.
struct PathLines {
    host: Host,
    paths: Arc<Vec<TreePath>>,
    next: usize,
}

impl ListReader for PathLines {
    fn next(&mut self, _patience: Duration) -> ListLine {
        let Some(path) = self.paths.get(self.next) else { return ListLine::End(None) };
        self.next += 1;
        let path = OsStr::from_bytes(path.as_bytes()).into();
        ListLine::Source(Location { host: self.host.clone(), path })
    }

    fn position(&self) -> String {
        format!("path {} of the plan", self.next)
    }
}
