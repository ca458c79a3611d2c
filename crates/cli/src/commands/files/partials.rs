//! `haul status` and `haul clean`: partial files of interrupted copies, with the total of all paths.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_base::copy::location::Location;
use haul_control::controller::file_session::FileSessionError;
use haul_proto::wire::partials::{FoundPartial, PartialOutcome};
use haul_show::output::print;
use haul_show::partials::{PartialsFormat, Sum};

use super::lines::PlaceName;
use super::{FileWork, label};
use crate::args::flags;
use crate::args::values::Values;

/// What was found, and what was removed.
pub(super) struct Partials {
    form: PartialsFormat,
    removes: bool,
    /// Paths, as they are typed.
    places: Vec<String>,
    found: Sum,
    removed: Sum,
}

impl Partials {
    pub fn new(own: &Values, removes: bool) -> Self {
        let form = if own.is_set(&flags::JSON) { PartialsFormat::Json } else { PartialsFormat::Words };
        Self { form, removes, places: Vec::new(), found: Sum::default(), removed: Sum::default() }
    }

    /// Shows or removes partial files at `place`. Journals are beside them, or in `journals`.
    pub fn visit(
        &mut self,
        work: &mut FileWork<'_>,
        place: &Location,
        journals: Option<&PathBuf>,
    ) -> Result<(), FileSessionError> {
        self.places.push(PlaceName::of(place, place.path.as_os_str().as_bytes()).shown());
        let host = label(&place.host);
        let mut page = work.session.find_partials(&place.path, journals.map(PathBuf::as_path), self.removes)?;
        loop {
            let lines: String = page.found.iter().map(|found| self.count(host.as_deref(), found)).collect();
            print(&lines);
            work.fail_each(place, &page.failures);
            let Some(rest) = page.rest else { return Ok(()) };
            page = work.session.find_partials_on(rest)?;
        }
    }

    /// Returns the line of a partial file.
    fn count(&mut self, host: Option<&str>, FoundPartial { about, outcome }: &FoundPartial) -> String {
        self.found.add(about);
        if *outcome == PartialOutcome::Removed {
            self.removed.add(about);
        }
        self.form.line(host, about, *outcome)
    }

    /// Prints the total. After failures, text says nothing if nothing was found.
    pub fn end(&self, has_failed: bool) {
        let removed = self.removes.then_some(self.removed);
        if self.form == PartialsFormat::Json || self.found.count > 0 || !has_failed {
            print(&self.form.sum(self.found, removed, &self.places.join(" and ")));
        }
    }
}
