//! Lines of scp and rsync, as their users type them: each works, or is refused with what to type instead.

use std::ffi::{OsStr, OsString};

use super::super::Dialect;
use super::super::parse::{Command, parse};
use crate::resolve::{plan, sync};

/// What becomes of a line; `exists` are the files that are here.
fn becomes(line: &[&str], exists: &[&str]) -> String {
    let words = line.iter().map(OsString::from).collect();
    let exists = |name: &OsStr| exists.iter().any(|file| name == *file);
    let planned = match parse(Dialect::Haul, words, &exists) {
        Ok(Command::Copy(values, operands)) => plan(&values, &operands, false),
        Ok(Command::Sync(values, operands)) => sync(&values, &operands, false),
        Ok(other) => return format!("{other:?}"),
        Err(error) => Err(error),
    };
    match planned {
        Ok(plan) if plan.notes.is_empty() => "works".to_owned(),
        Ok(plan) => format!("works, and says: {}", plan.notes.join("; ")),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_line_works_or_names_its_replacement() {
    let lines: &[&[&str]] = &[
        // scp's.
        &["file", "db1:"],
        &["-r", "-p", "run7", "ann@db1:/archive/"],
        &["-P", "2222", "file", "db1:"],
        &["-P", "22", "file", "db1:"],
        &["-i", "key", "db1:file", "."],
        &["-C", "file", "db1:"],
        &["-l", "8192", "file", "db1:"],
        &["-o", "StrictHostKeyChecking=no", "file", "db1:"],
        &["-oBatchMode=yes", "file", "db1:"],
        &["-q", "file", "db1:"],
        &["-v", "file", "db1:"],
        &["-B", "file", "db1:"],
        &["-B", "32m", "file", "db1:"],
        &["-J", "gate", "file", "db1:"],
        &["-3", "db1:file", "db2:"],
        &["-c", "aes128-ctr", "file", "db1:"],
        &["-F", "ssh_config", "file", "db1:"],
        // rsync's.
        &["-avz", "run7/", "db1:run7"],
        &["-az", "--delete", "run7", "db1:"],
        &["-avn", "run7", "db1:"],
        &["-rn", "run7", "db1:"],
        &["-av", "run7", "db1:"],
        &["--archive", "--partial", "run7", "db1:"],
        &["--archive", "--delete", "run7", "db1:"],
        &["--archive", "--exclude=*.o", "run7", "db1:"],
        &["--archive", "--filter=- *.o", "run7", "db1:"],
        &["-e", "ssh -p 2222", "file", "db1:"],
        &["--rsh=ssh -p 2222 -i key -oBatchMode=yes", "file", "db1:"],
        &["--rsh", "rsh", "file", "db1:"],
        &["--bwlimit=1000", "file", "db1:"],
        &["--progress", "file", "db1:"],
        &["--progress", "--json", "file", "db1:"],
        &["-rP", "2026-runs", "db1:"],
        &["-P"],
        &["-P", "file", "db1:"],
        &["-u", "file", "db1:"],
        &["--dry-run", "file", "db1:"],
        &["--update", "file", "db1:"],
        &["-z", "file", "db1:"],
        &["--archive", "--del", "run7/", "db1:run7"],
        &["--archive", "--delete-after", "run7/", "db1:run7"],
        &["--archive", "--backup", "run7", "b", "db1:run7"],
        &["--archive", "--itemize-changes", "run7", "db1:run7"],
        &["--archive", "--size-only", "run7", "db1:run7"],
        &["--archive", "--ignore-times", "run7", "db1:run7"],
        &["--archive", "--checksum", "run7", "db1:run7"],
        &["--checksum", "-r", "run7", "db1:"],
        &["-rt", "run7", "db1:"],
        &["--nodns", "file", "db1:"],
        &["-b", "run7", "db1:run7"],
        // rsync's, with another word before them.
        &["sync", "-a", "--delete", "run7/", "db1:run7"],
        &["sync", "-av", "--delete", "run7/", "db1:run7"],
        &["sync", "-rv", "--update", "run7/", "db1:run7"],
        &["sync", "--archive", "run7/", "db1:run7"],
        &["sync", "-avz", "run7/", "db1:run7"],
        &["sync", "-vazn", "run7/", "db1:run7"],
        &["sync", "-aHAX", "--delete", "run7/", "db1:run7"],
        &["sync", "-aic", "run7/", "db1:run7"],
        &["sync", "-rlptgoD", "run7/", "db1:run7"],
        &["sync", "-n", "--delete", "run7/", "db1:run7"],
        &["sync", "-vn", "--delete", "run7/", "db1:run7"],
        &["sync", "-c", "run7/", "db1:run7"],
        &["sync", "-A", "run7/", "db1:run7"],
        &["sync", "-u", "run7/", "db1:run7"],
        &["sync", "-i", "run7/", "db1:run7"],
        &["sync", "-i", "run7/", "run8/", "copy"],
        &["sync", "-H", "run7/", "db1:run7"],
        &["sync", "-b", "run7/", "db1:run7"],
        &["sync", "-X", "run7/", "db1:run7"],
        &["sync", "-z", "run7/", "db1:run7"],
        &["sync", "--checksum", "run7/", "db1:run7"],
        &["sync", "--backup", "run7", "b", "db1:run7"],
        &["sync", "-avz", "--progress", "--stats", "run7/", "db1:run7"],
        &["sync", "-r", "--group", "--owner", "run7/", "db1:run7"],
        &["sync", "--nodns", "run7/", "db1:run7"],
        &["sync", "--delete-during", "run7/", "db1:run7"],
        &["sync", "-ikeyanv", "run7/", "db1:run7"],
    ];
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            format!(
                "$ haul {}\n{}",
                line.join(" "),
                becomes(line, &["ssh_config", "file", "run7", "run7/", "2026-runs"])
            )
        })
        .collect();
    insta::assert_snapshot!(said.join("\n\n"), @"
    $ haul file db1:
    works

    $ haul -r -p run7 ann@db1:/archive/
    works

    $ haul -P 2222 file db1:
    works

    $ haul -P 22 file db1:
    works

    $ haul -i key db1:file .
    works

    $ haul -C file db1:
    -C is no option of haul
    hint: scp's -C: -z
    hint: rsync's -C: --exclude PATTERN
    hint: bbcp's -C: --config FILE; haul bbcp takes bbcp's letters

    $ haul -l 8192 file db1:
    -l is no option of haul
    hint: scp's -l: --xfrrate RATE
    hint: rsync's -l: omit it
    hint: cp's -l: --link-dest DIR
    hint: bbcp's -l: --logfile FILE; haul bbcp takes bbcp's letters

    $ haul -o StrictHostKeyChecking=no file db1:
    works

    $ haul -oBatchMode=yes file db1:
    works

    $ haul -q file db1:
    works

    $ haul -v file db1:
    works

    $ haul -B file db1:
    -B is no option of haul
    hint: scp's -B: -o BatchMode=yes
    hint: rsync's -B: omit it
    hint: bbcp's -B: --buffsz SIZE; haul bbcp takes bbcp's letters

    $ haul -B 32m file db1:
    -B is no option of haul
    hint: scp's -B: -o BatchMode=yes
    hint: rsync's -B: omit it
    hint: bbcp's -B: --buffsz SIZE; haul bbcp takes bbcp's letters

    $ haul -J gate file db1:
    works

    $ haul -3 db1:file db2:
    works

    $ haul -c aes128-ctr file db1:
    -c is no option of haul
    hint: rsync's -c: --compare digest
    hint: scp's -c: --cipher NAME
    hint: bbcp's -c: --compress [MODE]; haul bbcp takes bbcp's letters

    $ haul -F ssh_config file db1:
    works

    $ haul -avz run7/ db1:run7
    works

    $ haul -az --delete run7 db1:
    --delete needs -f in a copy
    hint: add -f, or use haul sync --delete SOURCE... TARGET

    $ haul -avn run7 db1:
    works

    $ haul -rn run7 db1:
    works

    $ haul -av run7 db1:
    works

    $ haul --archive --partial run7 db1:
    works

    $ haul --archive --delete run7 db1:
    --delete needs -f in a copy
    hint: add -f, or use haul sync --delete SOURCE... TARGET

    $ haul --archive --exclude=*.o run7 db1:
    works

    $ haul --archive --filter=- *.o run7 db1:
    works

    $ haul -e ssh -p 2222 file db1:
    works

    $ haul --rsh=ssh -p 2222 -i key -oBatchMode=yes file db1:
    works

    $ haul --rsh rsh file db1:
    --rsh rsh: not ssh
    hint: only ssh with -F, -p, -i and -o is supported; see --source-command and --target-command

    $ haul --bwlimit=1000 file db1:
    works

    $ haul --progress file db1:
    works

    $ haul --progress --json file db1:
    works

    $ haul -rP 2026-runs db1:
    works

    $ haul -P
    no source and no target given
    hint: haul SOURCE... TARGET copies; each is a path or [user@]host:path
    hint: haul demo copies generated data on this machine
    hint: haul --help lists commands and options

    $ haul -P file db1:
    works

    $ haul -u file db1:
    works

    $ haul --dry-run file db1:
    works

    $ haul --update file db1:
    works

    $ haul -z file db1:
    works

    $ haul --archive --del run7/ db1:run7
    --delete needs -f in a copy
    hint: add -f, or use haul sync --delete SOURCE... TARGET

    $ haul --archive --delete-after run7/ db1:run7
    --delete needs -f in a copy
    hint: add -f, or use haul sync --delete SOURCE... TARGET

    $ haul --archive --backup run7 b db1:run7
    --backup needs -f: a copy does not replace files without it
    hint: add -f, or use haul sync SOURCE... TARGET

    $ haul --archive --itemize-changes run7 db1:run7
    works

    $ haul --archive --size-only run7 db1:run7
    works

    $ haul --archive --ignore-times run7 db1:run7
    works

    $ haul --archive --checksum run7 db1:run7
    works

    $ haul --checksum -r run7 db1:
    works

    $ haul -rt run7 db1:
    works

    $ haul --nodns file db1:
    works

    $ haul -b run7 db1:run7
    --backup needs -f: a copy does not replace files without it
    hint: add -f, or use haul sync SOURCE... TARGET

    $ haul sync -a --delete run7/ db1:run7
    works

    $ haul sync -av --delete run7/ db1:run7
    works

    $ haul sync -rv --update run7/ db1:run7
    works

    $ haul sync --archive run7/ db1:run7
    works

    $ haul sync -avz run7/ db1:run7
    works

    $ haul sync -vazn run7/ db1:run7
    works

    $ haul sync -aHAX --delete run7/ db1:run7
    works

    $ haul sync -aic run7/ db1:run7
    works

    $ haul sync -rlptgoD run7/ db1:run7
    works

    $ haul sync -n --delete run7/ db1:run7
    works

    $ haul sync -vn --delete run7/ db1:run7
    works

    $ haul sync -c run7/ db1:run7
    -c is no option of haul
    hint: rsync's -c: --compare digest
    hint: scp's -c: --cipher NAME
    hint: bbcp's -c: --compress [MODE]; haul bbcp takes bbcp's letters

    $ haul sync -A run7/ db1:run7
    works

    $ haul sync -u run7/ db1:run7
    works

    $ haul sync -i run7/ db1:run7
    works

    $ haul sync -i run7/ run8/ copy
    works

    $ haul sync -H run7/ db1:run7
    works

    $ haul sync -b run7/ db1:run7
    works

    $ haul sync -X run7/ db1:run7
    works

    $ haul sync -z run7/ db1:run7
    works

    $ haul sync --checksum run7/ db1:run7
    works

    $ haul sync --backup run7 b db1:run7
    works

    $ haul sync -avz --progress --stats run7/ db1:run7
    works

    $ haul sync -r --group --owner run7/ db1:run7
    works

    $ haul sync --nodns run7/ db1:run7
    works

    $ haul sync --delete-during run7/ db1:run7
    works

    $ haul sync -ikeyanv run7/ db1:run7
    -ikeyanv: -e takes an argument in rsync
    hint: write -i keyanv
    ");
}
