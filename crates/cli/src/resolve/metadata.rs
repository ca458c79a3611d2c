//! Preserved metadata: each property by its option, or rsync's choice with `--archive`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::spec::{MetadataOptions, OwnerOptions, PreserveOptions, RightsOptions, TimeOptions};

use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Resolves the metadata options of a copy, except for the mapping of owners.
pub fn metadata(values: &Values) -> Result<MetadataOptions, UsageError> {
    Ok(MetadataOptions {
        rights: rights(values),
        executability: false,
        times: times(values),
        is_required: rights(values).any() || values.is_set(&flags::MODE),
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
        without_capabilities: false,
    })
}

/// Modes, owners and groups: each by its own option, or by one that implies it.
pub fn rights(values: &Values) -> RightsOptions {
    let all = values.first_of(&[&flags::PRESERVE, &flags::ARCHIVE, &flags::ACLS]).is_some();
    let chown = values.last(&flags::CHOWN).map(OsStr::as_bytes);
    let (sets_user, sets_group) =
        (chown.is_some_and(|to| !to.starts_with(b":")), chown.is_some_and(|to| to.contains(&b':')));
    RightsOptions {
        mode: all || values.is_set(&flags::PERMS),
        owner: all || sets_user || values.first_of(&[&flags::OWNER, &flags::USERMAP]).is_some(),
        group: all || sets_group || values.first_of(&[&flags::GROUP, &flags::GROUPMAP]).is_some(),
    }
}

fn times(values: &Values) -> TimeOptions {
    let files = !values.is_set(&flags::NO_TIMES);
    TimeOptions {
        files,
        directories: files && !values.is_set(&flags::OMIT_DIR_TIMES),
        symlinks: files && !values.is_set(&flags::OMIT_LINK_TIMES),
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::spec::HolePolicy;

    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};

    fn resolved(line: &str) -> MetadataOptions {
        let words = line.split(' ').chain(["a", "b"]).filter(|word| !word.is_empty()).map(Into::into).collect();
        match parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles) {
            Ok(Command::Copy(values, _)) => metadata(&values).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn of(line: &str) -> (PreserveOptions, bool) {
        let MetadataOptions { preserve, rights, .. } = resolved(line);
        assert!(!rights.any() || rights == RightsOptions::ALL);
        (preserve, rights.any())
    }

    #[test]
    fn modes_owners_groups_and_times_have_options_of_their_own() {
        let none = RightsOptions::default();
        for (line, rights) in [
            ("--perms", RightsOptions { mode: true, ..none }),
            ("--owner", RightsOptions { owner: true, ..none }),
            ("--group", RightsOptions { group: true, ..none }),
            ("--perms --owner --group", RightsOptions::ALL),
            ("--preserve --group", RightsOptions::ALL),
        ] {
            let resolved = resolved(line);
            assert_eq!((resolved.rights, resolved.is_required), (rights, true), "{line}");
        }
        let all = TimeOptions::default();
        for (line, times) in [
            ("", all),
            ("--no-times", TimeOptions { files: false, directories: false, symlinks: false }),
            ("--omit-dir-times", TimeOptions { directories: false, ..all }),
            ("--omit-link-times", TimeOptions { symlinks: false, ..all }),
        ] {
            assert_eq!(resolved(line).times, times, "{line}");
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
