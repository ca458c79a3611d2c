//! The lookup of a listed name, by any thread.

use std::io;

use haul_base::copy::spec::Symlinks;
use haul_proto::limits::SYMLINK_MAX;
use haul_proto::path::Name;
use rustix::fs::{FileType, readlinkat};

use super::Dir;
use super::meta::{FileStat, FollowLinks};
use super::unsafe_link::is_unsafe_link;

/// The next step for a listed name.
pub(super) enum WalkStep {
    /// A lookup of a name, or of a link's destination.
    LookAt(FollowLinks),
    /// Entry into a directory, in its turn.
    Enter,
    /// None: its kind is never copied.
    LeaveOut,
}

/// Result of a lookup.
pub(crate) struct WalkLookup {
    pub stat: FileStat,
    /// Whether a link was followed.
    pub links: FollowLinks,
    /// The text of a symbolic link that is copied as a link.
    pub points_to: Option<Box<[u8]>>,
}

/// A symbolic link whose text no symlink(2) accepts.
#[derive(Debug, thiserror::Error)]
#[error(
    "the symbolic link leads to a path of {bytes} bytes, not 1 to {SYMLINK_MAX}\nremove it, or leave links out (--symlinks ignore)"
)]
struct UnusableLink {
    bytes: usize,
}

impl WalkStep {
    /// The step for a listed type.
    pub fn of(kind: FileType, symlinks: Symlinks) -> Self {
        match kind {
            FileType::RegularFile => Self::LookAt(FollowLinks::Itself),
            FileType::Directory => Self::Enter,
            FileType::Symlink | FileType::Unknown if symlinks == Symlinks::Follow => {
                Self::LookAt(FollowLinks::Followed)
            }
            FileType::Symlink | FileType::Unknown => Self::LookAt(FollowLinks::Itself),
            _ => Self::LeaveOut,
        }
    }
}

impl WalkLookup {
    /// Looks up `name` in `dir`.
    pub fn at(dir: &Dir, name: &Name, links: FollowLinks, symlinks: Symlinks) -> io::Result<Self> {
        let fd = dir.fd()?;
        let stat = FileStat::at_name(&*fd, name, links)?;
        let (mut seen, is_link) = (Self { stat, links, points_to: None }, stat.kind == FileType::Symlink);
        if is_link && symlinks == Symlinks::Follow {
            // Listed as a file, a link by now.
            seen.links = FollowLinks::Followed;
            seen.stat = FileStat::at_name(&*fd, name, seen.links)?;
        } else if is_link && symlinks != Symlinks::Ignore {
            let points_to: Box<[u8]> = readlinkat(&*fd, name.as_bytes(), Vec::new())?.into_bytes().into();
            // Some file systems have links that no other can hold.
            if points_to.is_empty() || points_to.len() > SYMLINK_MAX {
                return Err(io::Error::other(UnusableLink { bytes: points_to.len() }));
            }
            seen.points_to = Some(points_to);
        }
        Ok(seen)
    }

    /// Follows or drops the text of a link as `symlinks` says; it is this many directories below the root of the
    /// transfer.
    pub fn judge(mut self, dir: &Dir, name: &Name, symlinks: Symlinks, depth: usize) -> io::Result<Self> {
        let Some(points_to) = self.points_to.take() else { return Ok(self) };
        let target = || FileStat::at_name(&*dir.fd()?, name, FollowLinks::Followed);
        let followed = match symlinks {
            Symlinks::Safe if is_unsafe_link(&points_to, depth) => return Ok(self),
            Symlinks::FollowUnsafe if is_unsafe_link(&points_to, depth) => Some(target()?),
            Symlinks::FollowDirectories => target().ok().filter(|stat| stat.kind == FileType::Directory),
            _ => None,
        };
        match followed {
            Some(stat) => Ok(Self { stat, links: FollowLinks::Followed, points_to: None }),
            None => Ok(Self { points_to: Some(points_to), ..self }),
        }
    }
}
