//! Letters alone, with arguments and in groups, and the tables that give their meaning.

use std::ffi::{OsStr, OsString};

use super::super::names;
use super::super::rsync::OPTIONS;
use super::*;

/// Files `2222`, `key` and `dir` are here; `key` is a private key.
fn becomes(line: &str) -> String {
    let mut words = line.split(' ').map(OsString::from);
    let (word, next) = (words.next().unwrap(), words.next());
    let files = |name: &OsStr| name == "2222" || name == "key" || name == "dir";
    match expand(&word, next.as_deref(), &files) {
        Ok(Expanded { options, took_next }) => {
            let options: Vec<_> = options.iter().map(|option| option.to_string_lossy()).collect();
            format!("{}{}", options.join(" "), if took_next { " (both words)" } else { "" })
        }
        Err(error) => format!("refused: {error}"),
    }
}

#[test]
fn a_lone_letter_means_the_same_in_every_command() {
    for (line, options) in [
        ("-a", "--archive"),
        ("-n x", "--dry-run"),
        ("-z", "--compress=auto"),
        ("-s 4", "--streams=4 (both words)"),
        ("-s4", "--streams=4"),
        ("-w =4m", "--windowsz==4m (both words)"),
        ("-w=4m", "--windowsz==4m"),
        ("-s=4", "--streams=4"),
        ("-J gate", "--ssh-option=ProxyJump=gate (both words)"),
        ("-oBatchMode=yes", "--ssh-option=BatchMode=yes"),
        ("-o BatchMode=yes", "--ssh-option=BatchMode=yes (both words)"),
        ("-e ssh", "--rsh=ssh (both words)"),
        ("-F -", "--ssh-config=- (both words)"),
        ("-8 x", ""),
        ("-3 x", "--transport=ssh"),
        // The scanner misses the argument.
        ("-s", "--streams"),
        ("-e -v", "--rsh"),
    ] {
        assert_eq!(becomes(line), options, "{line}");
    }
}

#[test]
fn an_argument_decides_only_where_it_can_be_nothing_else() {
    for (line, options) in [
        ("-P 22", "--ssh-port=22 (both words)"),
        ("-P22", "--ssh-port=22"),
        ("-P dir", ""),
        ("-P", ""),
        ("-i key", "--idfile=key (both words)"),
        ("-i dir", "--items"),
        ("-i host:x", "--items"),
        ("-o dir", "--owner"),
        ("-o", "--owner"),
    ] {
        assert_eq!(becomes(line), options, "{line}");
    }
    for (line, hint) in [
        ("-x 50m", "bbcp's -x: --xfrrate RATE; haul bbcp takes bbcp's letters"),
        ("-b 8", "bbcp's -b: --buffers [+]N; haul bbcp takes bbcp's letters"),
        ("-b2", "bbcp's -b: --buffers [+]N; haul bbcp takes bbcp's letters"),
        ("-m 644", "bbcp's -m: --mode [DIRS/][FILES]; haul bbcp takes bbcp's letters"),
        ("-I -", "bbcp's -I: --infiles FILE; haul bbcp takes bbcp's letters"),
        (
            "-S /usr/bin/ssh",
            "scp's -S: --rsh COMMAND\nhint: bbcp's -S: --source-command CMD; haul bbcp takes bbcp's letters",
        ),
        ("-p 2223", "the port is -P 2223"),
        ("-p2222", "the port is -P 2222"),
        ("-avp4622", "the port is -P 4622"),
        ("-z=9", "write --compress=9"),
    ] {
        assert!(becomes(line).ends_with(&format!("takes no argument\nhint: {hint}")), "{line}: {}", becomes(line));
    }
    for (line, hint) in [
        ("-d /x", "bbcp's -d: --dirbase BASE"),
        ("-N io", "bbcp's -N: --pipe ENDS"),
        ("-Z 5000:5010", "bbcp's -Z: --data-ports P[:Q]"),
        ("-T ssh", "bbcp's -T: --target-command CMD"),
        ("-l log", "bbcp's -l: --logfile FILE"),
    ] {
        assert!(becomes(line).ends_with(&format!("hint: {hint}; haul bbcp takes bbcp's letters")), "{}", becomes(line));
    }
    for line in ["-x dir", "-x 2222", "-S dir", "-I dir", "-x host:x", "-m 2026-runs", "-z=9x"] {
        assert!(!becomes(line).contains("bbcp"), "{line}: {}", becomes(line));
    }
    assert!(becomes("-P 2").ends_with("hint: write --ssh-port 2 for the port, or --progress=2"));
    assert!(becomes("-P 2222").contains("is ambiguous: a port, and a file here"));
    assert!(becomes("-i missing").contains("-i missing: no such file"));
}

#[test]
fn a_group_is_rsyncs_or_refused_as_a_whole() {
    for (line, options) in [
        ("-avz", "--archive --verbose --compress=auto"),
        ("-avzP dir", "--archive --verbose --compress=auto"),
        ("-avi key", "--archive --verbose --items"),
        ("-rlptgoD", "--recursive --symlinks=keep --perms --group --owner --devices --specials"),
        ("-aHAX", "--archive --hard-links --acls --xattrs"),
        ("-vvv", "--verbose --verbose --verbose"),
        ("-ah", "--archive"),
        ("-n0", "--dry-run --null"),
    ] {
        assert_eq!(becomes(line), options, "{line}");
    }
    for (line, why) in [
        (
            "-avze ssh",
            "-avze: -e takes an argument in rsync\nhint: a group of letters is rsync's; write haul's apart: -a -v -z -e",
        ),
        ("-rf x", "-rf: -f takes an argument in rsync"),
        ("-Jgate", "-Jgate: -e takes an argument in rsync\nhint: write -J gate"),
        ("-essh", "hint: write -e ssh"),
        ("-avj", "-avj: rsync has no -j\nhint: a group of letters is rsync's; haul help letters lists them"),
        ("-j x", "unknown option -j"),
        ("-l 8192", "-l is no option of haul\nhint: scp's -l: --xfrrate RATE\nhint: rsync's -l: omit it"),
    ] {
        let refused = becomes(line);
        assert!(refused.starts_with("refused: ") && refused.contains(why), "{line}: {refused}");
    }
}

#[test]
fn every_letter_and_option_names_options_of_haul() {
    let check = |meaning: Meaning, of: &str| match meaning {
        Is(options) => options.iter().for_each(|option| {
            let name = option.trim_start_matches('-').split('=').next().unwrap();
            assert!(names::exact(COPY, name).is_some(), "{of}: {option}");
        }),
        With(option, _) => assert!(names::exact(COPY, option.trim_start_matches('-')).is_some(), "{of}: {option}"),
        Nothing | Refused(_) => {}
    };
    LETTERS.iter().for_each(|row| check(row.haul, &row.letter.to_string()));
    for option in OPTIONS {
        check(option.meaning, option.long);
        option.negated.into_iter().for_each(|meaning| check(meaning, option.long));
    }
    // A letter in the help is one that works.
    for row in COPY.iter().filter(|row| row.letter.is_some()) {
        assert!(row.letter.and_then(named).is_some_and(|named| named.is(row)), "{row:?}");
    }
}

#[test]
fn every_letter_of_rsync_cp_and_scp_is_known() {
    // rsync(1), version 3.5.0; cp(1), coreutils 9; scp(1), OpenSSH 9.
    let rsync = "vqcarRbudlLkKHpEAXogDtUNOJSnWxBeIyzCfFs048hPimT@M6V";
    for letter in rsync.chars() {
        assert!(rsync::letter(letter).is_some(), "-{letter}");
    }
    for letter in rsync.chars().chain("abdfiHlLnPpRrsStTuvxZ".chars()).chain("346ABCcDFiJlOoPpqRrSsTvX".chars()) {
        assert!(LETTERS.iter().any(|row| row.letter == letter), "-{letter}");
    }
}
