//! Options that make the target match the sources: `haul sync`, and the same options in a copy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{
    CopyOptions, DeleteMode, OverwritePolicy, Pipes, RightsOptions, Symlinks, SyncOptions, names_null,
};
use haul_control::operand::parse_operand;
use haul_proto::limits::{LINK_DESTS_MAX, PATH_MAX, SUFFIX_MAX};
use haul_proto::path::escape;

use crate::args::argument::bad;
use crate::args::parsers::DeleteTime;
use crate::args::row::{HelpSection, OptionRow};
use crate::args::values::Values;
use crate::args::{UsageError, contradiction, flags};

/// Resolves the sync options of a copy or a sync.
pub fn options(values: &Values) -> Result<SyncOptions, UsageError> {
    refuse_contradictions(values)?;
    let when = values.get(&flags::DELETE)?;
    let is_dry = values.is_set(&flags::DRY_RUN);
    let sync = SyncOptions {
        into: false,
        equal: values.get(&flags::COMPARE)?.flatten().unwrap_or_default(),
        modify_window_s: values.get(&flags::MODIFY_WINDOW)?,
        update: values.is_set(&flags::UPDATE),
        existing_only: values.is_set(&flags::EXISTING),
        detect_renames: values.is_set(&flags::DETECT_RENAMES),
        delete: match when {
            None => DeleteMode::No,
            Some(DeleteTime::During) => DeleteMode::During,
            Some(DeleteTime::Before | DeleteTime::After) => DeleteMode::After,
        },
        delete_max: delete_max(values)?.filter(|_| when.is_some()),
        delete_filtered: values.is_set(&flags::DELETE_EXCLUDED),
        replaces_trees: when.is_some(),
        delete_despite_errors: values.is_set(&flags::IGNORE_ERRORS),
        is_dry,
        tells_items: is_dry || values.is_set(&flags::ITEMS),
        source_removes: values.is_set(&flags::REMOVE_SOURCE_FILES) && !is_dry,
        removed_before: 0,
        backup_dir: values.last(&flags::BACKUP_DIR).map_or(Ok(Vec::new()), |dir| directory(&flags::BACKUP_DIR, dir))?,
        backup_suffix: backup_suffix(values)?,
        link_dests: values
            .each(&flags::LINK_DEST)
            .into_iter()
            .map(|dir| directory(&flags::LINK_DEST, dir))
            .collect::<Result<_, _>>()?,
        // The others are rsync's.
        ..SyncOptions::default()
    };
    if sync.link_dests.len() > LINK_DESTS_MAX {
        return Err(UsageError::new(format!("--link-dest: more than {LINK_DESTS_MAX} directories"))
            .remedy("name the newest ones"));
    }
    Ok(sync)
}

/// Whether extraneous entries are removed before the copy starts.
pub fn deletes_first(values: &Values) -> Result<bool, UsageError> {
    Ok(values.get(&flags::DELETE)? == Some(DeleteTime::Before))
}

/// The limit of deletions. Without one, an empty source deletes nothing at the target.
fn delete_max(values: &Values) -> Result<Option<u64>, UsageError> {
    let limit = values.get(&flags::MAX_DELETE)?.map(u64::from);
    Ok(limit.or_else(|| values.is_set(&flags::ALLOW_EMPTY_SOURCE).then_some(u64::MAX)))
}

/// Whether all existing entries stay.
pub fn keeps_existing_entries(values: &Values) -> bool {
    values.first_of(&[&flags::OMIT, &flags::IGNORE_EXISTING]).is_some()
        || values.get(&flags::COMPARE).is_ok_and(|how| how == Some(None))
}

/// A directory on the target's host.
fn directory(row: &OptionRow, dir: &OsStr) -> Result<Vec<u8>, UsageError> {
    if dir.is_empty() {
        return Err(UsageError::new(format!("{}: empty directory name", row.typed())));
    }
    if dir.len() > PATH_MAX {
        return Err(bad(row, dir, "path too long"));
    }
    match parse_operand(dir) {
        Ok(Location { host: Host::Local, .. }) => Ok(dir.as_bytes().to_vec()),
        _ => Err(bad(row, dir, "the directory is on the target's host, and takes no host name")
            .remedy(format!("omit the host; for a directory of that name, write ./{}", escape(dir.as_bytes())))),
    }
}

/// The suffix of backups; empty without backups, or in a directory of their own.
fn backup_suffix(values: &Values) -> Result<Vec<u8>, UsageError> {
    let (is_beside, has_directory) = (values.is_set(&flags::BACKUP), values.is_set(&flags::BACKUP_DIR));
    let Some(suffix) = values.last(&flags::SUFFIX) else {
        return Ok(if is_beside && !has_directory { b"~".to_vec() } else { Vec::new() });
    };
    if !is_beside && !has_directory {
        return Err(UsageError::new("--suffix needs --backup or --backup-dir"));
    }
    match suffix.as_bytes() {
        suffix if suffix.contains(&b'/') => Err(bad(&flags::SUFFIX, OsStr::from_bytes(suffix), "contains a slash")),
        suffix if suffix.len() > SUFFIX_MAX => Err(bad(&flags::SUFFIX, OsStr::from_bytes(suffix), "too long")),
        b"" if !has_directory => Err(UsageError::new("--suffix cannot be empty without --backup-dir")),
        suffix => Ok(suffix.to_vec()),
    }
}

/// Pairs of contradictory options, in any order.
fn refuse_contradictions(values: &Values) -> Result<(), UsageError> {
    let pairs: [(&OptionRow, &OptionRow); 16] = [
        (&flags::INPLACE, &flags::BACKUP),
        (&flags::INPLACE, &flags::BACKUP_DIR),
        (&flags::INPLACE, &flags::LINK_DEST),
        (&flags::INPLACE, &flags::IGNORE_EXISTING),
        (&flags::EXISTING, &flags::HARD_LINKS),
        (&flags::EXISTING, &flags::ARCHIVE),
        (&flags::EXISTING, &flags::LINK_DEST),
        (&flags::EXISTING, &flags::DETECT_RENAMES),
        (&flags::UPDATE, &flags::OMIT),
        (&flags::UPDATE, &flags::IGNORE_EXISTING),
        (&flags::FORCE, &flags::IGNORE_EXISTING),
        (&flags::DRY_RUN, &flags::CHECKSUMS),
        (&flags::DRY_RUN, &flags::CHECKSUM),
        (&flags::DRY_RUN, &flags::EXPECT),
        (&flags::QUIET, &flags::DRY_RUN),
        (&flags::QUIET, &flags::ITEMS),
    ];
    let is_json = values.is_set(&flags::JSON);
    let mut given = pairs.into_iter().filter(|(a, b)| values.is_set(a) && values.is_set(b));
    if let Some((a, b)) = given.find(|(a, _)| !a.is(&flags::QUIET) || !is_json) {
        return Err(contradiction(a, b));
    }
    if values.is_set(&flags::DETECT_RENAMES) && values.get(&flags::DELETE)? == Some(DeleteTime::Before) {
        return Err(UsageError::new(
            "--detect-renames cannot be used with --delete=before, which deletes moved files first",
        )
        .remedy("use --delete, which deletes after the copy"));
    }
    if values.is_set(&flags::REMOVE_SOURCE_FILES) && values.is_set(&flags::DELETE) {
        return Err(UsageError::new(
            "--remove-source-files cannot be used with --delete, which would delete the moved files",
        )
        .remedy("run haul sync --delete first, then haul sync --remove-source-files --compare digest"));
    }
    let follows = values.get(&flags::SYMLINKS)?.is_some_and(Symlinks::follows);
    if values.is_set(&flags::REMOVE_SOURCE_FILES) && follows {
        return Err(UsageError::new(
            "--remove-source-files cannot follow links (--symlinks): what they lead to is not removed",
        )
        .remedy("omit one of them"));
    }
    let compare = values.get(&flags::COMPARE)?;
    let denied: &[&OptionRow] = match compare {
        None => &[],
        Some(None) => &[&flags::FORCE, &flags::UPDATE, &flags::INPLACE],
        Some(Some(_)) => &[&flags::OMIT, &flags::IGNORE_EXISTING],
    };
    match values.first_of(denied) {
        Some(row) => Err(contradiction(&flags::COMPARE, row)),
        None => Ok(()),
    }
}

/// Refuses options that need another one, or a sync.
pub fn refuse_incomplete(values: &Values, is_sync: bool) -> Result<(), UsageError> {
    let deletes = values.is_set(&flags::DELETE);
    let of_delete: [&OptionRow; 4] =
        [&flags::DELETE_EXCLUDED, &flags::IGNORE_ERRORS, &flags::MAX_DELETE, &flags::ALLOW_EMPTY_SOURCE];
    // A limit in a configuration file applies only to copies that delete.
    if let Some(row) = of_delete.into_iter().find(|row| values.is_typed(row) && !deletes) {
        return Err(UsageError::new(format!("{} needs --delete", row.typed())).remedy("add --delete"));
    }
    if deletes {
        refuse_to_delete(values, is_sync)?;
    }
    if values.is_set(&flags::WATCH) && !is_sync {
        return Err(UsageError::new("--watch needs haul sync").remedy("haul sync --watch SOURCE TARGET"));
    }
    if values.is_set(&flags::EXISTING) && keeps_existing_entries(values) && !deletes {
        return Err(UsageError::new("nothing to do: these options neither create nor replace files")
            .remedy("omit --existing, or the option that skips existing files"));
    }
    let replacing = values.first_of(&[&flags::EXISTING, &flags::BACKUP, &flags::BACKUP_DIR]);
    match replacing.filter(|_| !is_sync && !values.is_set(&flags::FORCE)) {
        Some(row) => {
            Err(UsageError::new(format!("{} needs -f: a copy does not replace files without it", row.typed()))
                .remedy("add -f, or use haul sync SOURCE... TARGET"))
        }
        None => Ok(()),
    }
}

/// `--delete` removes everything else at the target, so it needs an unambiguous command.
fn refuse_to_delete(values: &Values, is_sync: bool) -> Result<(), UsageError> {
    let whole = |typed: &str, why: &str| {
        Err(UsageError::new(format!("--delete cannot be used with {typed}, {why}"))
            .remedy("name whole directories: haul sync --delete SOURCE/ TARGET/"))
    };
    if values.is_set(&flags::INFILES) {
        return whole("--infiles", "since it would delete everything that the list does not name");
    }
    if values.is_set(&flags::DIRBASE) {
        return whole("--dirbase", "since it would delete everything beside the sources");
    }
    let is_recursive = values.first_of(&[&flags::RECURSIVE, &flags::ARCHIVE]).is_some();
    let missing = match (is_recursive, values.is_set(&flags::FORCE)) {
        _ if is_sync => return Ok(()),
        (true, true) => return Ok(()),
        (true, false) => "-f",
        (false, true) => "-r",
        (false, false) => "-r and -f",
    };
    Err(UsageError::new(format!("--delete needs {missing} in a copy"))
        .remedy(format!("add {missing}, or use haul sync --delete SOURCE... TARGET")))
}

/// Refuses pipes and null, which have nothing to compare or delete, and a key without a host.
pub fn refuse_places(values: &Values, is_sync: bool, pipes: &Pipes, places: &[&Location]) -> Result<(), UsageError> {
    let is_null = places.iter().any(|place| names_null(place.path.as_os_str()));
    let what = match (pipes.source.is_some() || pipes.target.is_some(), is_null) {
        (true, _) => "a pipe",
        (false, true) => "null:",
        (false, false) => "",
    };
    let of_sync = values.given().iter().map(|(row, _)| *row).filter(|row| values.is_typed(row));
    let mut of_sync = of_sync.filter(|row| row.section == HelpSection::Syncing);
    if !what.is_empty() && is_sync {
        return Err(
            UsageError::new(format!("haul sync needs directories, not {what}")).remedy("use haul SOURCE TARGET")
        );
    }
    if let (false, Some(row)) = (what.is_empty(), of_sync.next()) {
        return Err(UsageError::new(format!("{} cannot be used with {what}", row.typed())));
    }
    if is_sync && values.is_typed(&flags::IDFILE) && places.iter().all(|place| place.host == Host::Local) {
        let key = values.last(&flags::IDFILE).unwrap_or_default();
        return Err(bad(&flags::IDFILE, key, "an ssh identity file needs a remote source or target")
            .remedy("rsync's -i is --items"));
    }
    Ok(())
}

/// Makes the target follow the sources: differing entries are replaced.
pub fn follow(options: &mut CopyOptions, values: &Values) {
    options.target.write.overwrite =
        if keeps_existing_entries(values) { OverwritePolicy::Omit } else { OverwritePolicy::Follow };
    options.target.sync.into = true;
}

/// Sets what a sync and its comparison imply. A server keeps modes and owners only on request.
pub fn imply(options: &mut CopyOptions, values: &Values, target: &Location) {
    let keeps_modes = !values.is_set(&flags::MODE) && !matches!(target.host, Host::Served { .. });
    options.source.recursive = true;
    if keeps_modes {
        options.metadata.rights = RightsOptions::ALL;
    }
    options.target.sync.into = true;
}

/// `SOURCE/` means the contents of SOURCE, as in rsync.
pub fn contents(source: Location) -> Location {
    let mut path = source.path.into_os_string().into_vec();
    if path.ends_with(b"/") {
        path.push(b'.');
    }
    Location { path: OsString::from_vec(path).into(), ..source }
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
