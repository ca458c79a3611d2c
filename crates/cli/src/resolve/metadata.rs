//! Preserved metadata: each property by its option, or rsync's choice with `--archive`.

use haul_base::copy::spec::{MetadataOptions, OwnerOptions, PreserveOptions};

use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Resolves the metadata options of a copy, except for the mapping of owners.
pub fn metadata(values: &Values) -> Result<MetadataOptions, UsageError> {
    Ok(MetadataOptions {
        owner_and_mode: preserves(values),
        is_required: preserves(values) || values.is_set(&flags::MODE),
        owners: OwnerOptions { by_name: true, ..OwnerOptions::default() },
        preserve: properties(values)?,
    })
}

fn properties(values: &Values) -> Result<PreserveOptions, UsageError> {
    let holes = values.get(&flags::SPARSE)?;
    let is_archive = values.is_set(&flags::ARCHIVE);
    Ok(PreserveOptions {
        holes: holes.unwrap_or_default(),
        hard_links: values.is_set(&flags::HARD_LINKS),
        attributes: values.is_set(&flags::XATTRS),
        acls: values.is_set(&flags::ACLS),
        // Without root, --devices fails, and rsync's -a leaves devices out.
        devices: values.is_set(&flags::DEVICES) || is_archive && rustix::process::geteuid().is_root(),
        specials: values.is_set(&flags::SPECIALS) || is_archive,
    })
}

/// Modes, owners and groups: `-p`, and options that imply it.
pub fn preserves(values: &Values) -> bool {
    values.first_of(&[&flags::PRESERVE, &flags::ARCHIVE, &flags::ACLS]).is_some()
}

#[cfg(test)]
mod tests {
    use haul_base::copy::spec::HolePolicy;

    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};

    fn of(line: &str) -> (PreserveOptions, bool) {
        let words = line.split(' ').chain(["a", "b"]).filter(|word| !word.is_empty()).map(Into::into).collect();
        match parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles) {
            Ok(Command::Copy(values, _)) => (properties(&values).unwrap(), preserves(&values)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_option_keeps_one_thing_and_archive_what_rsyncs_keeps() {
        let none = PreserveOptions::default();
        assert_eq!(of(""), (none, false));
        assert_eq!(of("--hard-links"), (PreserveOptions { hard_links: true, ..none }, false));
        assert_eq!(of("--xattrs"), (PreserveOptions { attributes: true, ..none }, false));
        assert_eq!(of("--acls"), (PreserveOptions { acls: true, ..none }, true));
        assert_eq!(of("--devices"), (PreserveOptions { devices: true, ..none }, false));
        assert_eq!(of("--specials"), (PreserveOptions { specials: true, ..none }, false));
        let devices = rustix::process::geteuid().is_root();
        assert_eq!(of("-a"), (PreserveOptions { devices, specials: true, ..none }, true));
        assert_eq!(of("--sparse=fill").0.holes, HolePolicy::Fill);
        assert_eq!(of("--sparse").0.holes, HolePolicy::Make);
    }
}
