//! The place of a file session: a copy's source, with a target that holds nothing.

use std::ffi::OsString;

use haul_base::copy::event::{Event, Observer};
use haul_show as show;

/// What a copy from there would be: it has the host, the login and the credential.
const TARGET: &str = "null:";

/// The operands of the copy that reads from `places`.
pub fn operands(places: &[OsString]) -> Vec<OsString> {
    places.iter().cloned().chain([TARGET.into()]).collect()
}

/// Shows warnings about the connection.
pub struct Warnings;

impl Observer for Warnings {
    fn event(&mut self, event: &Event) {
        if let Event::Warning(text) = event {
            show::stderr().warning(text);
        }
    }
}
