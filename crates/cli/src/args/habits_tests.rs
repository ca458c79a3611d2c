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
fn every_line_works_or_names_what_to_type_instead() {
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
        works, and says: progress is shown every 2222 seconds; ssh's port, scp's -P, is --ssh-port 2222

        $ haul -P 22 file db1:
        works, and says: progress is shown every 22 seconds; ssh's port, scp's -P, is --ssh-port 22

        $ haul -i key db1:file .
        works

        $ haul -C file db1:
        -C file: -C is a file of options, and what is to be copied where is missing
        scp's -C is what haul does anyway where it pays: leave it out

        $ haul -l 8192 file db1:
        -l 8192: -l is the name of a file for what is shown
        scp's limit is -x 1000k; a file of that name is written ./8192

        $ haul -o StrictHostKeyChecking=no file db1:
        -o StrictHostKeyChecking=no: -o writes in ascending order, and takes no argument
        ssh's -o is --ssh-option StrictHostKeyChecking=no

        $ haul -oBatchMode=yes file db1:
        -oBatchMode=yes: -o writes in ascending order, and takes no argument
        ssh's -o is --ssh-option BatchMode=yes

        $ haul -q file db1:
        -q file: needs a traffic class, 0 to 255
        scp's and rsync's -q is --quiet

        $ haul -v file db1:
        works

        $ haul -B file db1:
        -B file: needs a size
        scp's -B is --ssh-option BatchMode=yes

        $ haul -J gate file db1:
        there is no option -J
        scp's -J GATE is --ssh-option ProxyJump=GATE
        haul --help all lists them; a file of that name is written ./-J

        $ haul -3 db1:file db2:
        there is no option -3
        scp's -3 is what haul does where the two hosts cannot reach each other: leave it out
        haul --help all lists them; a file of that name is written ./-3

        $ haul -c aes128-ctr file db1:
        -c aes128-ctr: -c is for compression
        scp's -c is --cipher, with aes-256-gcm, aes-128-gcm or chacha20-poly1305

        $ haul -F ssh_config file db1:
        -F ssh_config: -F takes no argument here
        scp's -F is -T 'ssh -F ssh_config -l %U %H haul' (-S for a remote source); to copy that file, leave -F out

        $ haul -avz run7/ db1:run7
        -avz: letters are bbcp's here, and rsync's mean something else
        in haul sync they are rsync's: haul sync -avz SOURCE... TARGET

        $ haul -az --delete run7 db1:
        -az: letters are bbcp's here, and rsync's mean something else
        in haul sync they are rsync's: haul sync -az SOURCE... TARGET

        $ haul -avn run7 db1:
        -avn: letters are bbcp's here, and rsync's mean something else
        in haul sync they are rsync's: haul sync -avn SOURCE... TARGET

        $ haul -rn run7 db1:
        works, and says: -n is bbcp's: no names are looked up, and files are copied; it is not rsync's --dry-run

        $ haul -av run7 db1:
        works

        $ haul --archive --partial run7 db1:
        works

        $ haul --archive --delete run7 db1:
        --delete makes the target what the sources are: a copy needs -r and -f for it
        add -r and -f, or write haul sync --delete SOURCE... TARGET

        $ haul --archive --exclude=*.o run7 db1:
        works

        $ haul --archive --filter=- *.o run7 db1:
        --filter: rsync's rules are options here
        '- PATTERN' is --exclude PATTERN, '+ PATTERN' --include PATTERN, ': NAME' --filter-files NAME

        $ haul -e ssh -p 2222 file db1:
        -e "ssh -p 2222": -e takes no argument here
        rsync's -e is --rsh "ssh -p 2222"

        $ haul --rsh=ssh -p 2222 -i key -oBatchMode=yes file db1:
        works

        $ haul --rsh rsh file db1:
        --rsh rsh: it is not ssh
        only ssh with -p, -i and -o is understood; for anything else, -S and -T take a whole command

        $ haul --bwlimit=1000 file db1:
        works

        $ haul --progress file db1:
        --progress file: needs a number of seconds
        rsync's --progress is what haul does anyway on a terminal: leave it out

        $ haul -P file db1:
        -P file: needs a number of seconds
        rsync's -P is what haul does anyway: leave it out

        $ haul -u file db1:
        -u file: needs s, t, st or off, for O_DIRECT
        rsync's -u is --update

        $ haul --dry-run file db1:
        works

        $ haul --update file db1:
        --update: this is about what is replaced, and a copy replaces nothing
        add -f, or write haul sync SOURCE... TARGET

        $ haul -z file db1:
        works, and says: -z is bbcp's: the target connects to the source; compression (rsync's -z) is automatic

        $ haul --archive --del run7/ db1:run7
        --del: this could be several options
        rsync's --del is --delete=during

        $ haul --archive --delete-after run7/ db1:run7
        there is no option --delete-after
        rsync's --delete-after is --delete, or --delete=after
        haul --help all lists them; a file of that name is written ./--delete-after

        $ haul --archive --backup run7 b db1:run7
        --backup: haul keeps what is replaced or removed in a directory
        name it: --backup-dir DIR

        $ haul --archive --itemize-changes run7 db1:run7
        there is no option --itemize-changes
        rsync's --itemize-changes is --items
        haul --help all lists them; a file of that name is written ./--itemize-changes

        $ haul --archive --size-only run7 db1:run7
        there is no option --size-only
        rsync's --size-only is --compare size
        haul --help all lists them; a file of that name is written ./--size-only

        $ haul --archive --ignore-times run7 db1:run7
        there is no option --ignore-times
        rsync's --ignore-times is next to --compare digest: what is in the files decides
        haul --help all lists them; a file of that name is written ./--ignore-times

        $ haul --archive --checksum run7 db1:run7
        --checksum run7: needs a digest, such as sha256, that is printed of each file
        rsync's --checksum is --compare digest

        $ haul -b run7 db1:run7
        -b run7: needs a number of frames
        rsync's -b is --backup-dir DIR: what is replaced or removed goes there

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
        -u: letters of haul sync are rsync's, and in other commands of haul it is --unbuffered
        rsync's -u: --update
        haul's: --unbuffered

        $ haul sync -i run7/ db1:run7
        -i: letters of haul sync are rsync's, and in other commands of haul it is --idfile
        rsync's -i: --items
        haul's: --idfile

        $ haul sync -i run7/ run8/ copy
        -i: letters of haul sync are rsync's, and in other commands of haul it is --idfile
        rsync's -i: --items
        haul's: --idfile

        $ haul sync -H run7/ db1:run7
        -H: letters of haul sync are rsync's, and in other commands of haul it is --callback
        rsync's -H: --hard-links
        haul's: --callback

        $ haul sync -b run7/ db1:run7
        -b: letters of haul sync are rsync's, and in other commands of haul it is --buffers
        rsync's -b: --backup-dir DIR keeps what is replaced or removed
        haul's: --buffers

        $ haul sync -X run7/ db1:run7
        works

        $ haul sync -z run7/ db1:run7
        works

        $ haul sync --checksum run7/ db1:run7
        --checksum run7/: needs a digest, such as sha256, that is printed of each file
        rsync's --checksum is --compare digest

        $ haul sync --backup run7 b db1:run7
        --backup: haul keeps what is replaced or removed in a directory
        name it: --backup-dir DIR

        $ haul sync --delete-during run7/ db1:run7
        there is no option --delete-during
        rsync's --delete-during is --delete=during
        haul --help all lists them; a file of that name is written ./--delete-during

        $ haul sync -ikeyanv run7/ db1:run7
        -ikeyanv: rsync's -k is not an option of haul sync
        --symlinks follow follows links to files, too
        "#);
}

#[test]
fn what_is_there_is_a_file_and_what_bbcp_means_is_left_alone() {
    assert_eq!(becomes(&["-l", "8192", "file", "db1:"], &["8192"]), "works");
    assert_eq!(becomes(&["-o", "A=b", "file", "db1:dir/"], &["A=b"]), "works");
    for line in [
        &["-l", "log", "file", "db1:"][..],
        &["-a", "-v", "-r", "a", "b"],
        &["-a/zone/n/", "-v", "a", "b"],
        &["-or", "a", "b"],
        &["-e", "a", "b"],
        &["-P", "2", "a", "b"],
        &["-B", "4m", "a", "b"],
        &["-u", "t", "a", "b"],
        &["--", "-avz", "b"],
    ] {
        assert_eq!(becomes(line, &[]), "works", "{line:?}");
    }
}
