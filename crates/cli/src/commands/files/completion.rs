//! `haul completions paths HOST:PATH`: the paths on a host that begin so, for the completions of shells.
//!
//! It asks nothing, deploys nothing, and gives up soon: a person waits for it at the prompt of a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use haul_base::copy::rate::RateHandle;
use haul_base::sys::cancel::Cancel;
use haul_control::controller::file_session::{FileSession, FileSessionError};
use haul_control::operand::host_prefix;
use haul_proto::path::disturbs;
use haul_proto::wire::file_session::SessionRights;
use haul_show::exit::Exit;
use haul_show::output::print;

use super::lines::kind;
use crate::commands::configured::copy_values;
use crate::commands::own_program::own_program;
use crate::commands::session_place::{Warnings, operands};
use crate::resolve::plan;
use crate::signals::Watch;

/// Longest wait for a host.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most entries of a directory that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// Prints the paths that begin with `typed`, each on a line; those of directories end with a slash.
pub fn paths(typed: &OsStr) -> anyhow::Result<Exit> {
    let bytes = typed.as_bytes();
    let prefix = host_prefix(typed).as_bytes();
    let path = &bytes[prefix.len()..];
    let name_at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (directory, begun) = path.split_at(name_at);
    let listed = if directory.is_empty() { b"." } else { directory };
    let place = OsString::from_vec([prefix, listed].concat());
    let entries = match prefix.is_empty() {
        true => Vec::new(),
        // Whatever is wrong there, the shell has nothing to offer.
        false => entries(place).unwrap_or_default(),
    };
    let fits = |name: &[u8]| name.starts_with(begun) && (begun.starts_with(b".") || !name.starts_with(b"."));
    for (name, is_directory) in entries.iter().filter(|(name, _)| fits(name)) {
        let slash: &[u8] = if *is_directory { b"/" } else { b"" };
        // A name with a line break would be two.
        if let Ok(path) = String::from_utf8([prefix, directory, name, slash].concat())
            && !path.chars().any(disturbs)
        {
            print(&format!("{path}\n"));
        }
    }
    Ok(Exit::Done)
}

/// The names in the directory `place`, and whether each is a directory.
fn entries(place: OsString) -> anyhow::Result<Vec<(Vec<u8>, bool)>> {
    let operands = operands(&[place]);
    let values = copy_values(vec!["--ssh-option=BatchMode=yes".into(), "--no-deploy".into()], &operands)?;
    let mut copy = plan(&values, &operands, false)?.copy;
    copy.options.source.patterns = false;
    let cancel = Cancel::new();
    let watch = Watch::start(cancel.clone(), RateHandle::new(), Some(PATIENCE))?;
    let found = watch.during(|| -> Result<_, FileSessionError> {
        let mut session = FileSession::open(&mut copy, SessionRights::Read, &own_program(), &cancel, &mut Warnings)?;
        let mut page = session.list(&copy.sources[0].path, true)?;
        let mut found = Vec::new();
        loop {
            found.extend(page.entries.iter().map(|(name, entry)| (name.as_bytes().to_vec(), kind(entry).0 == 'd')));
            match page.rest.filter(|_| found.len() < ENTRIES_MAX) {
                Some(rest) => page = session.list_on(rest)?,
                None => return Ok(found),
            }
        }
    });
    Ok(found?)
}
