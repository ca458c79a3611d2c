//! A probe's recommendations as options.

use haul_proto::forecast::SuggestedSetting;

use crate::args::flags;
use crate::args::row::{HelpSection, OptionRow, Takes};
use crate::args::values::Values;

/// An option and its argument, if any.
pub type Option_ = (&'static OptionRow, Option<String>);

/// Options to save: recommended ones, and those of the command line, which applied to the measurement.
pub fn recommended(settings: &[SuggestedSetting], asked: &Values) -> Vec<Option_> {
    let found: Vec<_> = settings.iter().map(option).collect();
    let is_found = |row: &OptionRow| found.iter().any(|(found, _): &Option_| found.is(row));
    let typed = asked.given().iter().filter(|(row, _)| {
        row.section == HelpSection::Performance && !row.of_one_copy && asked.is_typed(row) && !is_found(row)
    });
    let typed: Vec<_> = typed
        .map(|(row, argument)| (*row, argument.as_ref().map(|text| text.to_string_lossy().into_owned())))
        .collect();
    typed.into_iter().chain(found.iter().cloned()).collect()
}

fn option(setting: &SuggestedSetting) -> Option_ {
    let (row, argument): (&OptionRow, _) = match setting {
        SuggestedSetting::Streams(streams) => (&flags::STREAMS, streams.to_string()),
        SuggestedSetting::Direct(true, true) => (&flags::UNBUFFERED, "st".to_owned()),
        SuggestedSetting::Direct(true, false) => (&flags::UNBUFFERED, "s".to_owned()),
        SuggestedSetting::Direct(false, _) => (&flags::UNBUFFERED, "t".to_owned()),
        SuggestedSetting::Buffered => (&flags::UNBUFFERED, "off".to_owned()),
    };
    (row, Some(argument))
}

/// The options as typed.
pub fn typed(options: &[Option_]) -> String {
    let one = |(row, argument): &Option_| match argument {
        Some(argument) if !matches!(row.takes, Takes::Nothing) => format!("{} {argument}", row.typed()),
        _ => row.typed(),
    };
    options.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args::Dialect;
    use crate::args::flags::COPY;

    fn row(id: &str) -> &'static OptionRow {
        COPY.iter().find(|row| row.id == id).unwrap()
    }

    pub fn asked(given: &[(&str, &str)]) -> Values {
        let given = given.iter().map(|(id, argument)| (row(id), Some(OsString::from(argument)))).collect();
        Values::new(COPY, Dialect::Haul, given)
    }

    #[test]
    fn requested_options_stay_and_findings_precede_them() {
        let asked = asked(&[("streams", "2"), ("cipher", "aes-128-gcm"), ("idfile", "key")]);
        let told = |settings: &[SuggestedSetting]| typed(&recommended(settings, &asked));
        assert_eq!(told(&[]), "--streams 2 --cipher aes-128-gcm");
        assert_eq!(
            told(&[SuggestedSetting::Streams(16), SuggestedSetting::Direct(false, true)]),
            "--cipher aes-128-gcm --streams 16 --unbuffered t"
        );
    }
}
