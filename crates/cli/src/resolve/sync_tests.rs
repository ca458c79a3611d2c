//! What a sync comes to, the same options in a copy, and what cannot stand together.

use haul_base::copy::spec::{EqualityTest, PreserveOptions, RightsOptions, TargetOptions};

use super::super::tests::{good, plan_of};
use super::*;

fn options(line: &str) -> CopyOptions {
    good(line).copy.options
}

#[test]
fn a_sync_keeps_the_same_as_rsync_a_and_removes_nothing() {
    let CopyOptions { source, metadata, target: TargetOptions { write, sync, delete_first, .. }, .. } =
        options("sync a b");
    assert!(source.recursive && write.overwrite == OverwritePolicy::Follow);
    assert!(metadata.rights == RightsOptions::ALL && metadata.preserve == PreserveOptions::default());
    assert_eq!(sync, SyncOptions { into: true, ..SyncOptions::default() });
    assert!(!delete_first);
    let copied = options("-r -f a b");
    assert!(!copied.metadata.rights.any() && copied.target.write.overwrite == OverwritePolicy::Replace);
    assert_eq!(copied.target.sync, SyncOptions::default());
}

#[test]
fn only_in_a_sync_a_trailing_slash_means_the_contents() {
    let paths = |line: &str| -> Vec<String> {
        let copy = good(line).copy;
        let paths = copy.sources.iter().chain([&copy.target]).map(|place| place.path.to_str().unwrap().to_owned());
        paths.collect()
    };
    assert_eq!(paths("sync a a/ a/. a/b// b/"), ["a", "a/.", "a/.", "a/b//.", "b/"]);
    assert_eq!(paths("sync db1:run7/ db1: db1:/ b"), ["run7/.", ".", "/.", "b"]);
    assert_eq!(paths("sync . .. / b"), [".", "..", "/.", "b"]);
    assert_eq!(paths("-r a/ b"), ["a/", "b"]);
}

#[test]
fn every_option_reaches_its_rule_in_a_sync_and_in_a_copy() {
    for (how, into) in [("sync", true), ("-r -f", false)] {
        let options = |options: &str| self::options(&format!("{how} {options} a b"));
        let rules = |line: &str| SyncOptions { into: false, ..options(line).target.sync };
        assert_eq!(options("--items").target.sync.into, into);
        let none = SyncOptions::default();
        let equal = |line| rules(line).equal;
        assert_eq!(
            ["--compare time", "--compare size", "--compare=digest"].map(equal),
            [EqualityTest::SizeAndTime, EqualityTest::Size, EqualityTest::Digest]
        );
        assert_eq!(rules("--update"), SyncOptions { update: true, ..none.clone() });
        assert_eq!(rules("--existing"), SyncOptions { existing_only: true, ..none.clone() });
        assert_eq!(rules("--detect-renames"), SyncOptions { detect_renames: true, ..none.clone() });
        assert_eq!(rules("--items"), SyncOptions { tells_items: true, ..none.clone() });
        assert_eq!(rules("--dry-run"), SyncOptions { is_dry: true, tells_items: true, ..none.clone() });
        let deleting = |delete| SyncOptions { delete, replaces_trees: true, ..none.clone() };
        for (line, delete, first) in [
            ("--delete", DeleteMode::After, false),
            ("--delete after", DeleteMode::After, false),
            ("--delete=during", DeleteMode::During, false),
            ("--delete=before", DeleteMode::After, true),
        ] {
            let options = options(line);
            assert_eq!(
                (SyncOptions { into: false, ..options.target.sync }, options.target.delete_first),
                (deleting(delete), first),
                "{line}"
            );
            assert_eq!(options.target.write.overwrite, OverwritePolicy::Follow, "what is something else gives way");
        }
        assert_eq!(
            rules("--delete --max-delete 0 --delete-excluded --ignore-errors"),
            SyncOptions {
                delete_max: Some(0),
                delete_filtered: true,
                delete_despite_errors: true,
                ..deleting(DeleteMode::After)
            }
        );
        assert_eq!(rules("--backup-dir old"), SyncOptions { backup_dir: b"old".to_vec(), ..none.clone() });
        let kept = |suffix: &str| SyncOptions { backup_suffix: suffix.as_bytes().to_vec(), ..none.clone() };
        assert_eq!((rules("-b"), rules("--backup --suffix .old")), (kept("~"), kept(".old")));
        assert_eq!(
            rules("--backup --backup-dir old --suffix=~"),
            SyncOptions { backup_dir: b"old".to_vec(), ..kept("~") }
        );
        let linked = rules("--link-dest ../1 --link-dest=/abs/2");
        assert_eq!(linked.link_dests, [b"../1".to_vec(), b"/abs/2".to_vec()]);
        assert!(options("--remove-source-files").target.sync.source_removes);
    }
    for line in
        ["sync --compare exists a b", "sync --ignore-existing a b", "-r --ignore-existing a b", "sync --omit a b"]
    {
        assert_eq!(options(line).target.write.overwrite, OverwritePolicy::Omit, "{line}");
    }
    assert_eq!(options("sync --delete before a").target.sync.delete, DeleteMode::After);
    assert!(!options("sync --delete before a").target.delete_first, "a source of that name is no argument");
}

#[test]
fn deletion_in_a_whole_home_or_system_has_to_be_spelled_out() {
    let refused = |line: &str| plan_of(line, false).err().map(|error| error.to_string());
    for (target, explicit) in [("h:", "h:./"), ("u@[::1]:", "u@[::1]:./"), ("h:/", "h:/."), ("/", "/."), ("//", "/.")] {
        for line in [format!("sync --delete a/ {target}"), format!("-r -f --delete a {target}")] {
            let error = refused(&line).unwrap();
            assert!(error.contains(&format!("write {explicit} for the ")), "{line}: {error}");
        }
        assert_eq!(refused(&format!("sync a/ {target}")), None);
        assert_eq!(refused(&format!("sync --delete a/ {explicit}")), None);
    }
    assert_eq!(refused("sync --delete a/ h:b"), None);
}

#[test]
fn explicit_modes_and_a_servers_own_override_preserved_ones() {
    assert!(!options("sync --mode 640 a b").metadata.rights.any());
    let secret = "haul://db1/#".to_owned() + &"ab".repeat(16);
    match plan_of(&format!("sync a {secret}"), false) {
        Ok(plan) => assert!(!plan.copy.options.metadata.rights.any()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn settings_of_a_file_apply_only_to_matching_jobs() {
    let values = |line: &str| {
        let words = line.split(' ').map(OsString::from).collect();
        match crate::args::parse::parse(crate::args::Dialect::Haul, words, &crate::args::local_files::PlainFiles) {
            Ok(crate::args::parse::Command::Sync(values, _)) => {
                values.and(vec![(&flags::MAX_DELETE.row, Some(OsString::from("5")))])
            }
            other => panic!("{other:?}"),
        }
    };
    let rules = |line| {
        let values = values(line);
        refuse_incomplete(&values, true).map(|()| super::options(&values).unwrap().delete_max)
    };
    assert_eq!(rules("sync a b"), Ok(None));
    assert_eq!(rules("sync --delete a b"), Ok(Some(5)));
    assert!(rules("sync --max-delete 1 a b").is_err());
}

#[test]
fn meaningless_combinations_are_refused_with_the_remedy() {
    let many = format!("sync {}a b", "--link-dest d ".repeat(21));
    let lines = [
        "-r --delete a b",
        "-f --delete a b",
        "-r --omit --delete a b",
        "sync --delete --infiles list b",
        "sync --delete --dirbase base a b",
        "sync --delete=now a b",
        "sync --delete-excluded a b",
        "sync --ignore-errors a b",
        "sync --max-delete 3 a b",
        "sync --delete --max-delete -1 a b",
        "sync --delete --max-delete many a b",
        "-r --existing a b",
        "-r --backup-dir old a b",
        "-rb a b",
        "sync --suffix x a b",
        "sync -b --suffix= a b",
        "sync -b --suffix a/b a b",
        "sync --inplace --backup a b",
        "sync --existing --ignore-existing a b",
        "sync --existing --hard-links a b",
        "sync --existing --archive a b",
        "sync --existing --link-dest d a b",
        "sync --existing --detect-renames a b",
        "sync --delete=before --detect-renames a b",
        "sync --update --compare exists a b",
        "sync --update --ignore-existing a b",
        "sync --compare size --ignore-existing a b",
        "sync --compare size --omit a b",
        "-r -f --compare exists a b",
        "-r -f --ignore-existing a b",
        "sync --compare contents a b",
        "sync --inplace --backup-dir old a b",
        "sync --inplace --link-dest d a b",
        "sync --inplace --compare exists a b",
        "sync --dry-run --checksums sums a b",
        "sync --dry-run --checksum md5 a b",
        "sync --dry-run --expect sums a b",
        "sync --dry-run --quiet a b",
        "--items --quiet a b",
        "sync --backup-dir= a b",
        "sync --backup-dir db1:/old a db1:b",
        "sync --link-dest db1:/old a db1:b",
        &many,
        "sync - b",
        "sync --pipe i a b",
        "sync null:1g b",
        "sync a db1:null:",
        "--dry-run a -",
        "--pipe o --compare size a b",
        "--realtime --items a b",
        "--items null:1g b",
        "sync --delete --remove-source-files a b",
    ];
    let said = lines.map(|line| format!("$ haul {line}\n{}", plan_of(line, false).map(|_| "works").unwrap_err()));
    insta::assert_snapshot!(said.join("\n\n"), @"
    $ haul -r --delete a b
    --delete needs -f in a copy
    hint: add -f, or use haul sync --delete SOURCE... TARGET

    $ haul -f --delete a b
    --delete needs -r in a copy
    hint: add -r, or use haul sync --delete SOURCE... TARGET

    $ haul -r --omit --delete a b
    --delete needs -f in a copy
    hint: add -f, or use haul sync --delete SOURCE... TARGET

    $ haul sync --delete --infiles list b
    --delete cannot be used with --infiles, since it would delete everything that the list does not name
    hint: name whole directories: haul sync --delete SOURCE/ TARGET/

    $ haul sync --delete --dirbase base a b
    --delete cannot be used with --dirbase, since it would delete everything beside the sources
    hint: name whole directories: haul sync --delete SOURCE/ TARGET/

    $ haul sync --delete=now a b
    --delete now: must be before, during or after

    $ haul sync --delete-excluded a b
    --delete-excluded needs --delete
    hint: add --delete

    $ haul sync --ignore-errors a b
    --ignore-errors needs --delete
    hint: add --delete

    $ haul sync --max-delete 3 a b
    --max-delete needs --delete
    hint: add --delete

    $ haul sync --delete --max-delete -1 a b
    --max-delete needs an argument, but -1 is an option
    hint: --max-delete N: with --delete, delete nothing if it is more than N

    $ haul sync --delete --max-delete many a b
    --max-delete many: must be a whole number from 0 to 4294967295

    $ haul -r --existing a b
    --existing needs -f: a copy does not replace files without it
    hint: add -f, or use haul sync SOURCE... TARGET

    $ haul -r --backup-dir old a b
    --backup-dir needs -f: a copy does not replace files without it
    hint: add -f, or use haul sync SOURCE... TARGET

    $ haul -rb a b
    --backup needs -f: a copy does not replace files without it
    hint: add -f, or use haul sync SOURCE... TARGET

    $ haul sync --suffix x a b
    --suffix needs --backup or --backup-dir

    $ haul sync -b --suffix= a b
    --suffix cannot be empty without --backup-dir

    $ haul sync -b --suffix a/b a b
    --suffix a/b: contains a slash

    $ haul sync --inplace --backup a b
    --inplace cannot be used with --backup

    $ haul sync --existing --ignore-existing a b
    nothing to do: these options neither create nor replace files
    hint: omit --existing, or the option that skips existing files

    $ haul sync --existing --hard-links a b
    --existing cannot be used with --hard-links

    $ haul sync --existing --archive a b
    --existing cannot be used with --archive

    $ haul sync --existing --link-dest d a b
    --existing cannot be used with --link-dest

    $ haul sync --existing --detect-renames a b
    --existing cannot be used with --detect-renames

    $ haul sync --delete=before --detect-renames a b
    --detect-renames cannot be used with --delete=before, which deletes moved files first
    hint: use --delete, which deletes after the copy

    $ haul sync --update --compare exists a b
    --compare cannot be used with --update

    $ haul sync --update --ignore-existing a b
    --update cannot be used with --ignore-existing

    $ haul sync --compare size --ignore-existing a b
    --compare cannot be used with --ignore-existing

    $ haul sync --compare size --omit a b
    --compare cannot be used with --omit

    $ haul -r -f --compare exists a b
    --compare cannot be used with --force

    $ haul -r -f --ignore-existing a b
    --force cannot be used with --ignore-existing

    $ haul sync --compare contents a b
    --compare contents: must be time, size, digest, exists or never

    $ haul sync --inplace --backup-dir old a b
    --inplace cannot be used with --backup-dir

    $ haul sync --inplace --link-dest d a b
    --inplace cannot be used with --link-dest

    $ haul sync --inplace --compare exists a b
    --compare cannot be used with --inplace

    $ haul sync --dry-run --checksums sums a b
    --dry-run cannot be used with --checksums

    $ haul sync --dry-run --checksum md5 a b
    --dry-run cannot be used with --checksum

    $ haul sync --dry-run --expect sums a b
    --dry-run cannot be used with --expect

    $ haul sync --dry-run --quiet a b
    --quiet cannot be used with --dry-run

    $ haul --items --quiet a b
    --quiet cannot be used with --items

    $ haul sync --backup-dir= a b
    --backup-dir: empty directory name

    $ haul sync --backup-dir db1:/old a db1:b
    --backup-dir db1:/old: the directory is on the target's host, and takes no host name
    hint: omit the host; for a directory of that name, write ./db1:/old

    $ haul sync --link-dest db1:/old a db1:b
    --link-dest db1:/old: the directory is on the target's host, and takes no host name
    hint: omit the host; for a directory of that name, write ./db1:/old

    $ haul sync --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d --link-dest d a b
    --link-dest: more than 20 directories
    hint: name the newest ones

    $ haul sync - b
    haul sync needs directories, not a pipe
    hint: use haul SOURCE TARGET

    $ haul sync --pipe i a b
    haul sync needs directories, not a pipe
    hint: use haul SOURCE TARGET

    $ haul sync null:1g b
    haul sync needs directories, not null:
    hint: use haul SOURCE TARGET

    $ haul sync a db1:null:
    haul sync needs directories, not null:
    hint: use haul SOURCE TARGET

    $ haul --dry-run a -
    --dry-run cannot be used with a pipe

    $ haul --pipe o --compare size a b
    --compare cannot be used with a pipe

    $ haul --realtime --items a b
    --items cannot be used with a pipe

    $ haul --items null:1g b
    --items cannot be used with null:

    $ haul sync --delete --remove-source-files a b
    --remove-source-files cannot be used with --delete, which would delete the moved files
    hint: run haul sync --delete first, then haul sync --remove-source-files --compare digest
    ");
}

#[test]
fn meaningful_combinations_are_accepted() {
    for line in [
        "sync --dry-run --remove-source-files a b",
        "sync --existing --ignore-existing --delete a b",
        "sync --delete a b c d",
        "sync --dry-run --json --quiet a b",
        "sync --delete --backup-dir old --link-dest 1 --detect-renames a b",
        "sync --idfile key a db1:b",
        "sync --delete --archive --force a b",
        "--archive -f --delete a b",
        "-r --items --link-dest 1 a b",
        "-r --omit --compare exists a b",
        "sync --infiles list b",
    ] {
        let line = line.replace("list", "/dev/null");
        assert!(plan_of(&line, false).is_ok(), "{line}: {:?}", plan_of(&line, false).err());
    }
}
