//! `haul ls`: prints directories in pieces, so that memory does not grow with them.

use std::os::unix::ffi::OsStrExt;

use haul_base::copy::location::Location;
use haul_control::controller::file_session::{FileSessionError, ListedPage};
use haul_proto::path::{Name, escape};
use haul_proto::wire::file_session::{FileFailure, FoundEntry};
use haul_show as show;
use haul_show::json::encode;
use haul_show::output::print;

use super::lines::{FileLine, PlaceName, kind, long, size_text, target};
use super::{FileWork, joined};
use crate::args::flags;
use crate::args::values::Values;

/// Most entries that are sorted together.
const SORTED_MAX: usize = 100_000;

/// How to list, and what was listed.
pub(super) struct List {
    is_long: bool,
    is_human: bool,
    is_json: bool,
    shows_hidden: bool,
    /// Whether each directory has a heading.
    has_headings: bool,
    /// Whether something was printed.
    has_printed: bool,
}

impl List {
    /// `has_headings` if there are several places.
    pub fn new(own: &Values, has_headings: bool) -> Self {
        Self {
            is_long: own.is_set(&flags::files::ls::LONG),
            is_human: own.is_set(&flags::files::ls::HUMAN),
            is_json: own.is_set(&flags::JSON),
            shows_hidden: own.is_set(&flags::files::ls::HIDDEN),
            has_headings,
            has_printed: false,
        }
    }

    /// Lists a directory, or prints another entry. As ls(1), it shows a link itself with details, and else what is
    /// there, unless a slash follows.
    pub fn list(&mut self, work: &mut FileWork<'_>, place: &Location) -> Result<(), FileSessionError> {
        let has_details = self.is_long || self.is_json;
        let path = place.path.as_os_str().as_bytes();
        if has_details && !path.ends_with(b"/") {
            let entry = work.session.find(&place.path, false)?;
            if kind(&entry).0 != 'd' {
                self.print(place, &[(path.to_vec(), entry)]);
                return Ok(());
            }
        }
        let first = match work.session.list(&place.path, has_details) {
            Err(FileSessionError::Operation { failure: FileFailure::NotDirectory, .. }) => {
                let entry = work.session.find(&place.path, false)?;
                self.print(place, &[(path.to_vec(), entry)]);
                return Ok(());
            }
            listed => listed?,
        };
        if self.has_headings && !self.is_json {
            let gap = if self.has_printed { "\n" } else { "" };
            print(&format!("{gap}{}:\n", PlaceName::of(place, path).shown()));
            self.has_printed = true;
        }
        self.print_all(work, place, first)
    }

    fn print_all(
        &mut self,
        work: &mut FileWork<'_>,
        place: &Location,
        mut page: ListedPage,
    ) -> Result<(), FileSessionError> {
        let mut held: Vec<(Name, FoundEntry)> = Vec::new();
        let mut is_first_piece = true;
        loop {
            let shows = |name: &Name| self.shows_hidden || !name.as_bytes().starts_with(b".");
            held.extend(page.entries.into_iter().filter(|(name, _)| shows(name)));
            if page.rest.is_none() || held.len() >= SORTED_MAX {
                held.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
                let entries: Vec<_> = held
                    .drain(..)
                    .map(|(name, entry)| match self.is_json {
                        true => (joined(&place.path, name.as_bytes()), entry),
                        false => (name.as_bytes().to_vec(), entry),
                    })
                    .collect();
                self.print(place, &entries);
                if page.rest.is_some() && std::mem::take(&mut is_first_piece) {
                    let shown = PlaceName::of(place, place.path.as_os_str().as_bytes()).shown();
                    show::stderr().notice(&format!("{shown}: more than 100,000 entries: sorted in pieces"));
                }
            }
            let Some(rest) = page.rest else { return Ok(()) };
            page = work.session.list_on(rest)?;
        }
    }

    fn print(&mut self, place: &Location, entries: &[(Vec<u8>, FoundEntry)]) {
        let sizes: Vec<_> = entries.iter().map(|(_, entry)| size_text(entry, self.is_human)).collect();
        let width = sizes.iter().map(String::len).max().unwrap_or(0);
        let mut text = String::new();
        for ((path, entry), size) in entries.iter().zip(&sizes) {
            if self.is_json {
                text.push_str(&encode(&FileLine::Entry { name: PlaceName::of(place, path), entry: entry.into() }));
            } else if self.is_long {
                text.push_str(&(long(entry, size, width) + &escape(path) + &target(entry) + "\n"));
            } else {
                text.push_str(&(escape(path) + "\n"));
            }
        }
        self.has_printed |= !text.is_empty();
        print(&text);
    }
}
