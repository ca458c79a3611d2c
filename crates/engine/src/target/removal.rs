//! What goes at the target, so that something else comes in its place.

use haul_proto::path::Name;
use rustix::fs::{AtFlags, FileType, unlinkat};
use std::io;

use super::Target;
use crate::fs::{Dir, Links, Look};

impl Target {
    /// Removes what stands there; a directory has to be empty.
    pub(super) fn make_way(&self, dir: &Dir, name: &Name) -> io::Result<()> {
        if self.is_dry() {
            return Ok(());
        }
        let fd = dir.fd()?;
        let is_directory = Look::at_name(&*fd, name, Links::Itself)?.kind == FileType::Directory;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(unlinkat(&*fd, name.as_bytes(), flags)?)
    }
}
