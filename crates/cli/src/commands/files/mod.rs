//! `haul ls`, `haul du`, `haul mkdir`, `haul rm`, `haul status` and `haul clean`: files of this machine, of hosts over
//! ssh, and of `haul serve`, by the operations of a file session.

pub mod completion;
pub mod lines;
mod listing;
mod partials;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::copy::error::Error;
use haul_base::copy::location::{Host, Location};
use haul_base::copy::rate::RateHandle;
use haul_base::sys::cancel::Cancel;
use haul_control::controller::file_session::{FileSession, FileSessionError};
use haul_control::operand::{host_label, parse_operand};
use haul_proto::limits::FAILED_ENTRIES_MAX;
use haul_proto::wire::file_session::{DiskUsage, FailedEntries, FileFailure, SessionRights};
use haul_show::exit::Exit;
use haul_show::json::encode;
use haul_show::output::print;
use haul_show::{self as show, units};

use self::lines::{FileLine, PlaceName};
use self::listing::List;
use self::partials::Partials;
use crate::args::parse::FileCommand;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::commands::configured::between;
use crate::commands::own_program::own_program;
use crate::commands::session_place::{Warnings, operands};
use crate::resolve::plan;
use crate::signals::Watch;
use crate::slips::forgotten_colon;

/// Executes the command for all `places`, with one login for the places of one host.
pub fn run(what: FileCommand, own: &Values, copy: &Values, places: &[OsString]) -> anyhow::Result<Exit> {
    let mut groups: Vec<(Host, Vec<OsString>)> = Vec::new();
    for place in places {
        let forgotten = forgotten_colon(place, copy.last(&flags::SSH_CONFIG));
        forgotten.iter().for_each(|warning| show::stderr().error(warning));
        let host = parse_operand(place)?.host;
        match groups.iter_mut().find(|(other, _)| *other == host) {
            Some((_, group)) => group.push(place.clone()),
            None => groups.push((host, vec![place.clone()])),
        }
    }
    let cancel = Cancel::new();
    let watch = Watch::start(cancel.clone(), RateHandle::new(), None)?;
    let mut exit = Exit::Done;
    let mut partials = Partials::new(own, what == FileCommand::Clean);
    for (_, group) in groups {
        let values = between(copy.clone(), &operands(&group))?;
        let ended = watch.during(|| of_host(what, own, &values, &group, &cancel, &mut partials))?;
        exit = if exit == Exit::Done { ended } else { exit };
        if ended == Exit::Interrupted {
            break;
        }
    }
    if what.is_about_partials() {
        partials.end(exit != Exit::Done);
    }
    Ok(exit)
}

/// Executes it for the places of one host.
fn of_host(
    what: FileCommand,
    own: &Values,
    values: &Values,
    places: &[OsString],
    cancel: &Cancel,
    partials: &mut Partials,
) -> anyhow::Result<Exit> {
    let mut copy = plan(values, &operands(places), false)?.copy;
    if copy.options.pipes.source.is_some() {
        return Err(UsageError::new("- is a pipe, and no path").remedy("write ./- for a file of this name").into());
    }
    let rights = match what {
        FileCommand::Mkdir | FileCommand::Rm => SessionRights::ChangeNames,
        FileCommand::Clean => SessionRights::RemovePartials,
        FileCommand::Ls | FileCommand::Du | FileCommand::Status => SessionRights::Read,
    };
    // A new directory has the name that was typed, and the file of a partial file need not exist.
    copy.options.source.patterns &= what != FileCommand::Mkdir && !what.is_about_partials();
    let journals = own.last(&flags::partials::JOURNAL_DIR).map(PathBuf::from);
    let journals = journals
        .or_else(|| copy.options.target.partial.journal_dir.as_deref().map(OsStr::from_bytes).map(PathBuf::from));
    let mut session = match FileSession::open(&mut copy, rights, &own_program(), cancel, &mut Warnings) {
        Ok(session) => session,
        Err(error) => return Ok(report_end(error)),
    };
    let is_json = own.is_set(&flags::JSON);
    let mut work = FileWork { session: &mut session, is_json, exit: Exit::Done };
    let mut list = List::new(own, copy.sources.len() > 1 || places.len() > 1);
    for place in &copy.sources {
        let done = match what {
            FileCommand::Ls => list.list(&mut work, place),
            FileCommand::Du => work.measure(place),
            FileCommand::Mkdir => work.make_directory(place, own.is_set(&flags::files::mkdir::PARENTS)),
            FileCommand::Rm => work.remove(place, own),
            FileCommand::Status | FileCommand::Clean => partials.visit(&mut work, place, journals.as_ref()),
        };
        match done {
            Ok(()) => {}
            Err(FileSessionError::Operation { text, .. }) => work.fail(place, place.path.as_os_str().as_bytes(), &text),
            Err(FileSessionError::Over(error)) => return Ok(report_end(error)),
        }
    }
    Ok(work.exit)
}

/// Reports an error that ends a session.
fn report_end(error: Error) -> Exit {
    show::stderr().error(&error.to_string());
    Exit::of(&Err(error))
}

/// The name of a host in output; none for this machine.
fn label(host: &Host) -> Option<String> {
    (*host != Host::Local).then(|| host_label(host))
}

/// Work in one session.
struct FileWork<'s> {
    session: &'s mut FileSession,
    is_json: bool,
    exit: Exit,
}

impl FileWork<'_> {
    fn measure(&mut self, place: &Location) -> Result<(), FileSessionError> {
        let DiskUsage { entries, bytes, disk_bytes, repeats_links, failures } = self.session.measure(&place.path)?;
        let name = PlaceName::of(place, place.path.as_os_str().as_bytes());
        match self.is_json {
            true => print(&encode(&FileLine::Usage { name, entries, bytes, bytes_on_disk: disk_bytes, repeats_links })),
            false => print(&format!(
                "{:>10}  {:>16}  {}\n",
                units::size(bytes),
                units::counted(entries, "entry", "entries"),
                name.shown()
            )),
        }
        if repeats_links {
            show::stderr().notice("too many files with several names: some are counted several times");
        }
        self.fail_each(place, &failures);
        Ok(())
    }

    fn make_directory(&mut self, place: &Location, has_parents: bool) -> Result<(), FileSessionError> {
        let made = self.session.make_directory(&place.path, has_parents);
        made.map_err(|error| match error {
            FileSessionError::Operation { failure: FileFailure::Gone, text } if !has_parents => {
                let text = format!("{text}\n-p makes the directories above as well");
                FileSessionError::Operation { failure: FileFailure::Gone, text }
            }
            other => other,
        })?;
        if self.is_json {
            let name = PlaceName::of(place, place.path.as_os_str().as_bytes());
            print(&encode(&FileLine::Made { name }));
        }
        Ok(())
    }

    fn remove(&mut self, place: &Location, own: &Values) -> Result<(), FileSessionError> {
        let is_forced = own.is_set(&flags::files::rm::FORCE);
        let removed = self.session.remove(&place.path, own.is_set(&flags::files::rm::RECURSIVE));
        let (entries, failures) = match removed {
            Err(FileSessionError::Operation { failure: FileFailure::Gone, .. }) if is_forced => return Ok(()),
            removed => removed?,
        };
        if self.is_json {
            let name = PlaceName::of(place, place.path.as_os_str().as_bytes());
            print(&encode(&FileLine::Deleted { name, entries }));
        }
        self.fail_each(place, &failures);
        Ok(())
    }

    fn fail_each(&mut self, place: &Location, FailedEntries { count, first }: &FailedEntries) {
        first.iter().for_each(|(path, text)| self.fail(place, path, text));
        if *count > first.len() as u64 {
            let others = count - FAILED_ENTRIES_MAX.min(first.len()) as u64;
            show::stderr().error(&format!("and {} failed", units::counted(others, "other entry", "other entries")));
            self.exit = Exit::Failed;
        }
    }

    fn fail(&mut self, place: &Location, path: &[u8], text: &str) {
        self.exit = Exit::Failed;
        show::stderr().failure(&label(&place.host).unwrap_or_default(), path, text);
    }
}

/// `path` with the name of an entry in it.
fn joined(path: &Path, name: &[u8]) -> Vec<u8> {
    let path = path.as_os_str().as_bytes();
    haul_base::copy::display_path::below(if path == b"." { b"" } else { path }, name)
}
