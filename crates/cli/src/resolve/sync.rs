//! What makes the target the same as the sources: `haul sync`, and the same options in a copy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_engine::job::location::{Host, Location};
use haul_engine::job::spec::{DeleteMode, EqualityTest, JobOptions, OverwritePolicy, SyncOptions, names_null};
use haul_proto::limits::{LINK_DESTS_MAX, PATH_MAX};
use haul_proto::path::escape;

use super::{Plan, planned};
use crate::args::UsageError;
use crate::args::operand::parse_operand;
use crate::args::row::HelpSection;
use crate::args::table::typed;
use crate::args::values::{Values, bad};
use crate::pipes::Pipes;

/// What makes a file that is there the same; `None`: that it is there.
const COMPARE: [(&str, Option<EqualityTest>); 4] = [
    ("time", Some(EqualityTest::SizeAndTime)),
    ("size", Some(EqualityTest::Size)),
    ("digest", Some(EqualityTest::Digest)),
    ("exists", None),
];

/// When extraneous entries are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    During,
    After,
}

const DELETE: [(&str, When); 3] = [("before", When::Before), ("during", When::During), ("after", When::After)];

/// The plan for a sync. The last operand is the target.
pub fn sync(values: &Values, operands: &[OsString], stderr_is_terminal: bool) -> Result<Plan, UsageError> {
    planned(values, operands, stderr_is_terminal, true)
}

/// What the options say to the target, and what they say besides.
pub fn options(values: &Values, defaults: JobOptions) -> Result<JobOptions, UsageError> {
    refuse_contradictions(values)?;
    let when = values.choice("delete", &DELETE)?;
    let is_dry = values.flag("dry-run");
    let sync = SyncOptions {
        into: false,
        equal: values.choice("compare", &COMPARE)?.flatten().unwrap_or_default(),
        modify_window_s: values.number("modify-window", 0..=u32::MAX)?,
        update: values.flag("update"),
        existing_only: values.flag("existing"),
        detect_renames: values.flag("detect-renames"),
        delete: match when {
            None => DeleteMode::No,
            Some(When::During) => DeleteMode::During,
            Some(When::Before | When::After) => DeleteMode::After,
        },
        delete_max: delete_max(values)?.filter(|_| when.is_some()),
        delete_filtered: values.flag("delete-excluded"),
        replaces_trees: when.is_some(),
        delete_despite_errors: values.flag("ignore-errors"),
        is_dry,
        tells_items: is_dry || values.flag("items"),
        source_removes: false,
        removed_before: 0,
        backup_dir: values.last("backup-dir").map_or(Ok(Vec::new()), |dir| directory("backup-dir", dir))?,
        link_dests: values
            .each("link-dest")
            .into_iter()
            .map(|dir| directory("link-dest", dir))
            .collect::<Result<_, _>>()?,
    };
    if sync.link_dests.len() > LINK_DESTS_MAX {
        return Err(UsageError::new(format!("--link-dest: more than {LINK_DESTS_MAX} directories"))
            .remedy("name the newest ones"));
    }
    let remove_source_files = values.flag("remove-source-files");
    Ok(JobOptions { sync, delete_first: when == Some(When::Before), remove_source_files, ..defaults })
}

/// The limit of deletions. Without one, an empty source deletes nothing at the target.
fn delete_max(values: &Values) -> Result<Option<u64>, UsageError> {
    let limit = values.number("max-delete", 0..=u32::MAX)?.map(u64::from);
    Ok(limit.or_else(|| values.flag("allow-empty-source").then_some(u64::MAX)))
}

/// Whether existing entries stay, whatever they are.
pub fn leaves_what_is_there(values: &Values) -> bool {
    let is_exists = |how: &OsStr| how == "exists";
    ["omit", "ignore-existing"].into_iter().any(|id| values.flag(id)) || values.last("compare").is_some_and(is_exists)
}

/// A directory on the target's host.
fn directory(id: &str, dir: &OsStr) -> Result<Vec<u8>, UsageError> {
    if dir.is_empty() {
        return Err(UsageError::new(format!("{}: empty directory name", typed(id))));
    }
    if dir.len() > PATH_MAX {
        return Err(bad(id, dir, "path too long"));
    }
    match parse_operand(dir) {
        Ok(Location { host: Host::Local, .. }) => Ok(dir.as_bytes().to_vec()),
        _ => Err(bad(id, dir, "the directory is on the target's host, and takes no host name")
            .remedy(format!("omit the host; for a directory of that name, write ./{}", escape(dir.as_bytes())))),
    }
}

/// Pairs of contradictory options, in any order.
fn refuse_contradictions(values: &Values) -> Result<(), UsageError> {
    let pairs = [
        ("inplace", "backup-dir"),
        ("inplace", "link-dest"),
        ("inplace", "ignore-existing"),
        ("existing", "hard-links"),
        ("existing", "archive"),
        ("existing", "link-dest"),
        ("existing", "detect-renames"),
        ("update", "omit"),
        ("update", "ignore-existing"),
        ("force", "ignore-existing"),
        ("dry-run", "checksums"),
        ("dry-run", "checksum"),
        ("dry-run", "expect"),
        ("quiet", "dry-run"),
        ("quiet", "items"),
    ];
    let is_json = values.flag("json");
    let mut given = pairs.into_iter().filter(|(a, b)| values.flag(a) && values.flag(b));
    if let Some((a, b)) = given.find(|(a, _)| *a != "quiet" || !is_json) {
        return Err(UsageError::contradiction(a, b));
    }
    if values.flag("detect-renames") && values.choice("delete", &DELETE)? == Some(When::Before) {
        return Err(UsageError::new(
            "--detect-renames cannot be used with --delete=before, which deletes moved files first",
        )
        .remedy("use --delete, which deletes after the copy"));
    }
    if values.flag("remove-source-files") && values.flag("delete") {
        return Err(UsageError::new(
            "--remove-source-files cannot be used with --delete, which would delete the moved files",
        )
        .remedy("run haul sync --delete first, then haul sync --remove-source-files --compare digest"));
    }
    let follows = values.last("symlinks").is_some_and(|what| what == "follow");
    if values.flag("remove-source-files") && follows {
        return Err(UsageError::new(
            "--remove-source-files cannot be used with --symlinks follow: followed links are not removed",
        )
        .remedy("omit one of them"));
    }
    let compare = values.choice("compare", &COMPARE)?;
    let denied: &[&str] = match compare {
        None => &[],
        Some(None) => &["force", "update", "inplace"],
        Some(Some(_)) => &["omit", "ignore-existing"],
    };
    match denied.iter().find(|id| values.flag(id)) {
        Some(id) => Err(UsageError::contradiction("compare", id)),
        None => Ok(()),
    }
}

/// Options that mean nothing without another, or not in a copy.
pub fn refuse_what_lacks(values: &Values, is_sync: bool) -> Result<(), UsageError> {
    let deletes = values.flag("delete");
    let of_delete = ["delete-excluded", "ignore-errors", "max-delete", "allow-empty-source"];
    // A limit in a file waits for a job that removes something.
    if let Some(id) = of_delete.into_iter().find(|id| values.is_typed(id) && !deletes) {
        return Err(UsageError::new(format!("{} needs --delete", typed(id))));
    }
    if deletes {
        refuse_to_delete(values, is_sync)?;
    }
    if values.flag("existing") && leaves_what_is_there(values) && !deletes {
        return Err(UsageError::new("nothing to do: these options neither create nor replace files")
            .remedy("omit --existing, or the option that skips existing files"));
    }
    let of_replacing = ["update", "existing", "backup-dir"];
    match of_replacing.into_iter().find(|id| !is_sync && values.flag(id) && !values.flag("force")) {
        Some(id) => Err(UsageError::new(format!("{} needs -f: a copy does not replace files without it", typed(id)))
            .remedy("add -f, or use haul sync SOURCE... TARGET")),
        None => Ok(()),
    }
}

/// What is not named would be removed: all of it has to have been meant.
fn refuse_to_delete(values: &Values, is_sync: bool) -> Result<(), UsageError> {
    let whole = |typed: &str, why: &str| {
        Err(UsageError::new(format!("--delete cannot be used with {typed}, {why}"))
            .remedy("name whole directories: haul sync --delete SOURCE/ TARGET/"))
    };
    if values.flag("infiles") {
        return whole("-I", "since it would delete everything that the list does not name");
    }
    if values.flag("dirbase") {
        return whole("-d", "since it would delete everything beside the sources");
    }
    let is_recursive = ["recursive", "archive"].into_iter().any(|id| values.flag(id));
    match is_sync || (is_recursive && values.flag("force")) {
        true => Ok(()),
        false => Err(UsageError::new("--delete needs -r and -f in a copy")
            .remedy("add -r and -f, or use haul sync --delete SOURCE... TARGET")),
    }
}

/// Pipes and null have nothing to compare or remove; and a key is for a host.
pub fn refuse_places(values: &Values, is_sync: bool, pipes: &Pipes, places: &[&Location]) -> Result<(), UsageError> {
    let is_null = places.iter().any(|place| names_null(place.path.as_os_str()));
    let what = match (pipes.source.is_some() || pipes.target.is_some(), is_null) {
        (true, _) => "a pipe",
        (false, true) => "null:",
        (false, false) => "",
    };
    let of_sync = values.given().iter().map(|(row, _)| *row).filter(|row| values.is_typed(row.id));
    let mut of_sync = of_sync.filter(|row| row.section == HelpSection::Syncing);
    if !what.is_empty() && is_sync {
        return Err(
            UsageError::new(format!("haul sync needs directories, not {what}")).remedy("use haul SOURCE TARGET")
        );
    }
    if let (false, Some(row)) = (what.is_empty(), of_sync.next()) {
        return Err(UsageError::new(format!("{} cannot be used with {what}", row.typed())));
    }
    if is_sync && values.is_typed("idfile") && places.iter().all(|place| place.host == Host::Local) {
        let key = values.last("idfile").unwrap_or_default();
        return Err(
            bad("idfile", key, "an ssh identity file needs a remote source or target").remedy("rsync's -i is --items")
        );
    }
    Ok(())
}

/// What a sync implies. A server's files are its own: modes and owners are kept there only if that is asked for.
pub fn implied(options: JobOptions, values: &Values, target: &Location) -> JobOptions {
    let keeps_modes = !values.flag("mode") && !matches!(target.host, Host::Served { .. });
    JobOptions {
        recursive: true,
        preserve: options.preserve || keeps_modes,
        in_the_way: if leaves_what_is_there(values) { OverwritePolicy::Omit } else { OverwritePolicy::Follow },
        sync: SyncOptions { into: true, ..options.sync },
        ..options
    }
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
