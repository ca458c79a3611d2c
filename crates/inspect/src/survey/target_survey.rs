//! Existing files of the target. Its directories are examined together with the source's, by the rules of a copy. A
//! file of the same size and time counts as existing, as in a copy; contents are not compared.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::copy::display_path::own_name;
use haul_base::copy::error::Error;
use haul_base::sys::describe::describe;
use haul_engine::fs::{Dir, FileIdentity, FileStat, FollowLinks};
use haul_engine::{made_by, origin};
use haul_proto::path::{Name, escape};
use haul_proto::timestamps::looks_stored;
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::Serialize;

use super::Ask;
use super::tally::FileTotals;

/// Comparison with the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct TargetSurvey {
    /// Files of the same size and time, which a copy keeps.
    pub same: FileTotals,
    /// Files with a different entry of the same name, which a copy reports, or replaces with `-f`.
    pub differs: FileTotals,
    /// Missing files.
    pub missing: FileTotals,
    /// Bytes of both without their holes, which a copy with `-f` would send.
    pub send_bytes: u64,
}

/// The destination of operands.
enum SurveyDestination {
    /// Into this directory, under their own names.
    Into(Dir),
    /// The contents of the only directory, into this one.
    Contents(Dir),
    /// A single file, under this name in this directory.
    As(Dir, Name),
    /// The target does not exist.
    Nowhere,
}

/// The comparison with the target during a walk.
pub struct TargetComparison {
    destination: SurveyDestination,
    /// The target's counterparts of open directories, if they exist.
    open: Vec<Option<Dir>>,
    there: TargetSurvey,
}

impl TargetComparison {
    /// Opens the target of `ask`, if any.
    pub fn of(ask: &Ask) -> Result<Option<Self>, Error> {
        let Some(target) = &ask.target else { return Ok(None) };
        let destination = destination(ask, target)?;
        Ok(Some(Self { destination, open: Vec::new(), there: TargetSurvey::default() }))
    }

    /// The identity of the directory that a copy's walk skips.
    pub fn identity(&self) -> Option<FileIdentity> {
        match &self.destination {
            SurveyDestination::Into(dir) | SurveyDestination::Contents(dir) => Some(dir.identity()),
            SurveyDestination::As(..) | SurveyDestination::Nowhere => None,
        }
    }

    /// Enters a named directory.
    pub fn enter_operand(&mut self, path: &Path) {
        let name = own_name(path).and_then(|name| Name::new(name.as_bytes()).ok());
        let dir = match (&self.destination, name) {
            (SurveyDestination::Into(dir), Some(name)) => dir.child(&name).ok(),
            (SurveyDestination::Into(dir) | SurveyDestination::Contents(dir), _) => Some(dir.clone()),
            (SurveyDestination::As(..) | SurveyDestination::Nowhere, _) => None,
        };
        self.open.push(dir);
    }

    /// Enters a subdirectory.
    pub fn enter(&mut self, name: &Name) {
        let above = self.open.last().and_then(Option::as_ref);
        self.open.push(above.and_then(|above| above.child(name).ok()));
    }

    /// Leaves the innermost directory.
    pub fn leave(&mut self) {
        self.open.pop();
    }

    /// Compares a file in the innermost directory, with this many data bytes.
    pub fn file(&mut self, name: &Name, stat: &FileStat, data_bytes: u64) {
        let place = self.open.last().and_then(Option::as_ref).map(|dir| (dir, name));
        self.there.count(place, stat, data_bytes);
    }

    /// A file that was named.
    pub fn operand(&mut self, own: &Name, stat: &FileStat, data_bytes: u64) {
        let place = match &self.destination {
            SurveyDestination::Into(dir) => Some((dir, own)),
            SurveyDestination::As(dir, name) => Some((dir, name)),
            SurveyDestination::Contents(_) | SurveyDestination::Nowhere => None,
        };
        self.there.count(place, stat, data_bytes);
    }

    /// Returns the result.
    pub fn finish(self) -> TargetSurvey {
        self.there
    }
}

impl TargetSurvey {
    fn count(&mut self, place: Option<(&Dir, &Name)>, stat: &FileStat, data_bytes: u64) {
        let found = place.map(|(dir, name)| FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself));
        let sum = match found {
            Some(Ok(there)) if is_same(&there, stat) => return self.same.add(stat.size),
            // An entry that cannot be read exists.
            Some(Err(error)) if error.raw_os_error() != Some(Errno::NOENT.raw_os_error()) => &mut self.differs,
            Some(Ok(_)) => &mut self.differs,
            Some(Err(_)) | None => &mut self.missing,
        };
        sum.add(stat.size);
        self.send_bytes = self.send_bytes.saturating_add(data_bytes);
    }
}

fn is_same(there: &FileStat, here: &FileStat) -> bool {
    let (time, found) = (here.meta.modified, there.meta.modified);
    let has_time = || found == time || looks_stored(time, found, there.changed);
    there.kind == FileType::RegularFile && there.size == here.size && has_time()
}

fn destination(ask: &Ask, target: &Path) -> Result<SurveyDestination, Error> {
    let shown = escape(target.as_os_str().as_bytes());
    let failed = |error: io::Error| Error::Failed(format!("--to {shown}: {}", describe(&error)));
    let stat = match rustix::fs::stat(target) {
        Ok(stat) => FileStat::from(&stat),
        Err(Errno::NOENT) => return Ok(SurveyDestination::Nowhere),
        Err(error) => return Err(failed(error.into())),
    };
    let directories: Vec<_> = ask.paths.iter().map(|path| path.is_dir()).collect();
    match (stat.kind, directories.as_slice()) {
        (FileType::Directory, [true]) if is_resumed(ask, target, stat.identity) => {
            Ok(SurveyDestination::Contents(Dir::open_root(target).map_err(failed)?))
        }
        (FileType::Directory, _) => Ok(SurveyDestination::Into(Dir::open_root(target).map_err(failed)?)),
        (FileType::RegularFile, [false]) => beside(target).map_err(failed),
        _ => Err(Error::Usage(format!("--to {shown} is not a directory\nname the target directory of the copy"))),
    }
}

/// Whether the contents of the only named directory go into the target itself: it has no name of its own, or the target
/// is its copy.
fn is_resumed(ask: &Ask, target: &Path, identity: FileIdentity) -> bool {
    let [only] = ask.paths.as_slice() else { return false };
    let origin = || origin(&[only.as_os_str().as_bytes().to_vec()]);
    own_name(only).is_none() || made_by(ask.state_dir.as_deref(), target, identity, &origin())
}

/// Returns an existing file as a name in its directory. It follows a symbolic link, as a copy does.
fn beside(target: &Path) -> io::Result<SurveyDestination> {
    let real: PathBuf = std::fs::canonicalize(target)?;
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else { return Ok(SurveyDestination::Nowhere) };
    let name = Name::new(name.as_bytes()).map_err(io::Error::other)?;
    Ok(SurveyDestination::As(Dir::open_root_path(parent)?, name))
}
