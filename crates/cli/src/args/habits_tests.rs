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
    let said: Vec<_> =
        lines.iter().map(|line| format!("$ haul {}\n{}", line.join(" "), becomes(line, &["ssh_config"]))).collect();
    insta::assert_snapshot!(said.join("\n\n"), @r#"
        $ haul file db1:
        works

        $ haul -r -p run7 ann@db1:/archive/
        works

        $ haul -P 2222 file db1:
        works, and says: -P 2222 prints progress every 2222 s; scp's -P, the ssh port, is --ssh-port 2222

        $ haul -P 22 file db1:
        works, and says: -P 22 prints progress every 22 s; scp's -P, the ssh port, is --ssh-port 22

        $ haul -i key db1:file .
        works

        $ haul -C file db1:
        -C file: -C takes a configuration file, and source or target is missing
        hint: scp's -C is automatic where it pays: omit it

        $ haul -l 8192 file db1:
        -l 8192: -l takes the name of a log file
        hint: scp's limit is -x 1000k; for a log file of that name, write ./8192

        $ haul -o StrictHostKeyChecking=no file db1:
        -o StrictHostKeyChecking=no: -o (write sequentially) takes no argument
        hint: ssh's -o is --ssh-option StrictHostKeyChecking=no

        $ haul -oBatchMode=yes file db1:
        -oBatchMode=yes: -o (write sequentially) takes no argument
        hint: ssh's -o is --ssh-option BatchMode=yes

        $ haul -q file db1:
        --qos file: must be a traffic class, 0 to 255
        hint: scp's and rsync's -q is --quiet

        $ haul -v file db1:
        works

        $ haul -B file db1:
        --buffsz file: must be a size
        hint: scp's -B is --ssh-option BatchMode=yes

        $ haul -B 32m file db1:
        works, and says: -B 32m: the largest block is 1m, which is used

        $ haul -J gate file db1:
        unknown option -J
        hint: scp's -J GATE is --ssh-option ProxyJump=GATE
        hint: haul --help all lists all options; for a file of that name, write ./-J

        $ haul -3 db1:file db2:
        unknown option -3
        hint: scp's -3 is automatic where the two hosts cannot reach each other: omit it
        hint: haul --help all lists all options; for a file of that name, write ./-3

        $ haul -c aes128-ctr file db1:
        -c aes128-ctr: -c is compression
        hint: scp's -c is --cipher, with aes-256-gcm, aes-128-gcm or chacha20-poly1305

        $ haul -F ssh_config file db1:
        -F ssh_config: -F takes no argument
        hint: scp's -F is --ssh-config ssh_config; to copy that file, omit -F

        $ haul -avz run7/ db1:run7
        -avz: single letters are bbcp's here, not rsync's
        hint: in haul sync they are rsync's: haul sync -avz SOURCE... TARGET

        $ haul -az --delete run7 db1:
        -az: single letters are bbcp's here, not rsync's
        hint: in haul sync they are rsync's: haul sync -az SOURCE... TARGET

        $ haul -avn run7 db1:
        -avn: single letters are bbcp's here, not rsync's
        hint: in haul sync they are rsync's: haul sync -avn SOURCE... TARGET

        $ haul -rn run7 db1:
        -n is ambiguous: rsync's is a dry run, bbcp's skips name lookups and copies
        hint: write --dry-run for rsync's, or --nodns for bbcp's

        $ haul -av run7 db1:
        works

        $ haul --archive --partial run7 db1:
        works

        $ haul --archive --delete run7 db1:
        --delete needs -r and -f in a copy
        hint: add -r and -f, or use haul sync --delete SOURCE... TARGET

        $ haul --archive --exclude=*.o run7 db1:
        works

        $ haul --archive --filter=- *.o run7 db1:
        --filter: rsync's rules are options here
        hint: '- PATTERN' is --exclude PATTERN, '+ PATTERN' --include PATTERN, ': NAME' --filter-files NAME

        $ haul -e ssh -p 2222 file db1:
        -e "ssh -p 2222": -e takes no argument
        hint: rsync's -e is --rsh "ssh -p 2222"

        $ haul --rsh=ssh -p 2222 -i key -oBatchMode=yes file db1:
        works

        $ haul --rsh rsh file db1:
        --rsh rsh: not ssh
        hint: only ssh with -F, -p, -i and -o is supported; for other commands, use -S and -T

        $ haul --bwlimit=1000 file db1:
        works

        $ haul --progress file db1:
        --progress file: must be a number of seconds
        hint: rsync's -P and --progress are automatic: omit them

        $ haul --progress --json file db1:
        --progress needs an argument, but --json is an option
        hint: rsync's -P and --progress are automatic: omit them
        hint: -P, --progress SECONDS: print a progress line every SECONDS

        $ haul -rP 2026-runs db1:
        --progress 2026-runs: must be a number of seconds
        hint: rsync's -P and --progress are automatic: omit them

        $ haul -P
        --progress needs an argument
        hint: rsync's -P and --progress are automatic: omit them
        hint: -P, --progress SECONDS: print a progress line every SECONDS

        $ haul -P file db1:
        --progress file: must be a number of seconds
        hint: rsync's -P and --progress are automatic: omit them

        $ haul -u file db1:
        --unbuffered file: must be s, t, st or off, for O_DIRECT
        hint: rsync's -u is --update

        $ haul --dry-run file db1:
        works

        $ haul --update file db1:
        --update needs -f: a copy does not replace files without it
        hint: add -f, or use haul sync SOURCE... TARGET

        $ haul -z file db1:
        works, and says: -z is bbcp's: the target connects to the source; rsync's -z, compression, is automatic

        $ haul --archive --del run7/ db1:run7
        --del is ambiguous: --delta, --delete, --delete-excluded
        hint: rsync's --del is --delete=during

        $ haul --archive --delete-after run7/ db1:run7
        unknown option --delete-after
        hint: rsync's --delete-after is --delete, or --delete=after
        hint: haul --help all lists all options; for a file of that name, write ./--delete-after

        $ haul --archive --backup run7 b db1:run7
        unknown option --backup
        hint: rsync's --backup is --backup-dir DIR, which keeps replaced and deleted files in DIR
        hint: haul --help all lists all options; for a file of that name, write ./--backup

        $ haul --archive --itemize-changes run7 db1:run7
        unknown option --itemize-changes
        hint: rsync's --itemize-changes is --items
        hint: haul --help all lists all options; for a file of that name, write ./--itemize-changes

        $ haul --archive --size-only run7 db1:run7
        unknown option --size-only
        hint: rsync's --size-only is --compare size
        hint: haul --help all lists all options; for a file of that name, write ./--size-only

        $ haul --archive --ignore-times run7 db1:run7
        unknown option --ignore-times
        hint: nearest to rsync's --ignore-times: --compare digest, which compares contents
        hint: haul --help all lists all options; for a file of that name, write ./--ignore-times

        $ haul --archive --checksum run7 db1:run7
        --checksum run7: must be a digest, for example sha256
        hint: rsync's --checksum is --compare digest

        $ haul --checksum -r run7 db1:
        --checksum needs an argument, but -r is an option
        hint: rsync's --checksum is --compare digest
        hint: -E, --checksum ALG[=VALUE|=FILE]: print, compare or record the digest of each file; %ALG: at the source. ALG is a32, c32, c32z, md5, crc32c, crc64nvme, sha1, sha256, sha512, xxh3 or blake3

        $ haul -rt run7 db1:
        --timelimit run7: must be a time
        hint: rsync's -t is automatic: times are always preserved

        $ haul --nodns file db1:
        works

        $ haul -b run7 db1:run7
        --buffers run7: must be a number of frames
        hint: rsync's -b is --backup-dir DIR, which keeps replaced and deleted files in DIR

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
        works

        $ haul sync -A run7/ db1:run7
        works

        $ haul sync -u run7/ db1:run7
        -u is ambiguous: letters of haul sync are rsync's, but elsewhere it is haul's --unbuffered
        hint: rsync's -u: --update
        hint: haul's -u: --unbuffered

        $ haul sync -i run7/ db1:run7
        -i is ambiguous: letters of haul sync are rsync's, but elsewhere it is haul's --idfile
        hint: rsync's -i: --items
        hint: haul's -i: --idfile

        $ haul sync -i run7/ run8/ copy
        -i is ambiguous: letters of haul sync are rsync's, but elsewhere it is haul's --idfile
        hint: rsync's -i: --items
        hint: haul's -i: --idfile

        $ haul sync -H run7/ db1:run7
        -H is ambiguous: letters of haul sync are rsync's, but elsewhere it is haul's --callback
        hint: rsync's -H: --hard-links
        hint: haul's -H: --callback

        $ haul sync -b run7/ db1:run7
        -b is ambiguous: letters of haul sync are rsync's, but elsewhere it is haul's --buffers
        hint: rsync's -b: --backup-dir DIR keeps replaced and deleted files
        hint: haul's -b: --buffers

        $ haul sync -X run7/ db1:run7
        works

        $ haul sync -z run7/ db1:run7
        works

        $ haul sync --checksum run7/ db1:run7
        --checksum run7/: must be a digest, for example sha256
        hint: rsync's --checksum is --compare digest

        $ haul sync --backup run7 b db1:run7
        unknown option --backup
        hint: rsync's --backup is --backup-dir DIR, which keeps replaced and deleted files in DIR
        hint: haul --help all lists all options; for a file of that name, write ./--backup

        $ haul sync -avz --progress --stats run7/ db1:run7
        --progress needs an argument, but --stats is an option
        hint: rsync's -P and --progress are automatic: omit them
        hint: -P, --progress SECONDS: print a progress line every SECONDS

        $ haul sync -r --group --owner run7/ db1:run7
        works

        $ haul sync --nodns run7/ db1:run7
        works

        $ haul sync --delete-during run7/ db1:run7
        unknown option --delete-during
        hint: rsync's --delete-during is --delete=during
        hint: haul --help all lists all options; for a file of that name, write ./--delete-during

        $ haul sync -ikeyanv run7/ db1:run7
        -ikeyanv: haul sync does not support rsync's -k
        hint: --symlinks follow follows links to files as well
    "#);
}

#[test]
fn existing_files_are_files_and_bbcps_meanings_are_unchanged() {
    assert_eq!(becomes(&["-l", "8192", "file", "db1:"], &["8192"]), "works");
    assert_eq!(becomes(&["-o", "A=b", "file", "db1:dir/"], &["A=b"]), "works");
    for line in [
        &["-l", "log", "file", "db1:"][..],
        &["-a", "-v", "-r", "a", "b"],
        &["-a/zone/n/", "-v", "a", "b"],
        &["-or", "a", "b"],
        &["-e", "a", "b"],
        &["-P", "2", "a", "b"],
        &["-B", "512k", "a", "b"],
        &["-u", "t", "a", "b"],
        &["--", "-avz", "b"],
    ] {
        assert_eq!(becomes(line, &[]), "works", "{line:?}");
    }
}
