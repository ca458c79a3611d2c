//! Commands, options and operands, and what is said of words that make no sense.

use super::{flags, *};

fn parse_words(words: &[&str]) -> Result<Command, UsageError> {
    parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &here)
}

/// The files here: `there`, and those of one letter.
fn here(name: &OsStr) -> bool {
    name == "there" || name.len() == 1
}

fn error(words: &[&str]) -> String {
    parse_words(words).unwrap_err().to_string()
}

fn copy_of(words: &[&str]) -> (Values, Vec<OsString>) {
    match parse_words(words) {
        Ok(Command::Copy(values, operands)) => (values, operands),
        other => panic!("{other:?}"),
    }
}

#[test]
fn letters_cluster_and_options_may_follow_operands() {
    let (values, operands) = copy_of(&["-rv", "-f", "-s4", "a", "-p", "b", "--", "-c"]);
    assert!(values.is_set(&flags::RECURSIVE) && values.is_set(&flags::FORCE) && values.is_set(&flags::PERMS));
    assert_eq!(values.last(&flags::STREAMS), Some(OsStr::new("4")));
    assert_eq!(operands, ["a", "b", "-c"]);
}

#[test]
fn the_last_repetition_counts_and_repeatable_options_add_up() {
    let (values, _) =
        copy_of(&["-r", "-r", "-s1", "--streams=2", "--ssh-option", "A=1", "--ssh-option=B=2", "-vv", "a", "b"]);
    assert!(values.is_set(&flags::RECURSIVE));
    assert_eq!(values.last(&flags::STREAMS), Some(OsStr::new("2")));
    assert_eq!(values.each(&flags::SSH_OPTION), ["A=1", "B=2"]);
    assert_eq!(values.count(&flags::VERBOSE), 2);
}

#[test]
fn bbcp_letters_keep_their_meaning_under_its_name() {
    let line = "-k -A -P 2 -w 1m -@ follow -i key -S ssh -T t a b";
    let words = line.split(' ').map(OsString::from).collect();
    let Ok(Command::Copy(values, operands)) = parse(Dialect::Bbcp, words, &here) else { panic!("no copy") };
    assert_eq!(operands, ["a", "b"]);
    assert_eq!(values.last(&flags::PROGRESS), Some(OsStr::new("2")));
    assert_eq!(values.last(&flags::WINDOWSZ), Some(OsStr::new("1m")));
    assert_eq!(values.last(&flags::SYMLINKS), Some(OsStr::new("follow")));
    assert_eq!(values.last(&flags::IDFILE), Some(OsStr::new("key")));
    assert!(values.is_set(&flags::KEEP) && values.is_set(&flags::MKDIR) && !values.is_set(&flags::PRESERVE));
    assert_eq!(values.last(&flags::SOURCE_COMMAND), Some(OsStr::new("ssh")));
}

#[test]
fn operands_may_be_any_bytes() {
    let odd = OsString::from(OsStr::from_bytes(b"\xff\n"));
    let command = parse(Dialect::Haul, vec![odd.clone(), "b".into()], &crate::args::local_files::PlainFiles);
    assert!(matches!(command, Ok(Command::Copy(_, operands)) if operands[0] == odd));
}

#[test]
fn a_command_is_a_command_whatever_files_lie_about() {
    let parse = |words: &[&str]| parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &|_: &OsStr| true);
    assert!(matches!(parse(&["worker"]), Ok(Command::Worker(WorkerTask::Run { input: None, output: None }))));
    assert!(matches!(parse(&["worker", "--identify"]), Ok(Command::Worker(WorkerTask::Identify))));
    assert!(
        matches!(parse(&["worker", "--verify", "ab"]), Ok(Command::Worker(WorkerTask::Verify(hex))) if hex == "ab")
    );
    assert!(matches!(parse(&["demo", "--keep"]), Ok(Command::Demo(..))));
    assert!(matches!(parse(&["sync", "a", "b"]), Ok(Command::Sync(..))));
    assert!(matches!(parse(&["status", "."]), Ok(Command::Files(FileCommand::Status, ..))));
    assert!(matches!(parse(&["help", "sync"]), Ok(Command::Print(_))));
    assert!(matches!(parse(&["./sync", "b"]), Ok(Command::Copy(..))));
    assert!(matches!(parse(&["a", "sync"]), Ok(Command::Copy(..))));
}

#[test]
fn options_may_come_before_the_command() {
    for (line, command) in [
        ("-v sync a b", "Sync"),
        ("--json verify -r a b", "Verify"),
        ("-s 4 -avz sync a b", "Sync"),
        ("--exclude sync sync a b", "Sync"),
        ("--xfrrate 1m --quiet probe b", "Probe"),
        ("--timeout 30 sync a b", "Sync"),
        ("-v a sync", "Copy"),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let parsed = format!("{:?}", parse_words(&words));
        assert!(parsed.starts_with(&format!("Ok({command}")), "{line}: {parsed}");
    }
}

#[test]
fn what_is_no_copy_says_what_to_type() {
    for line in [&["bbftp", "-e", "put a b", "db1"][..], &["bbftp", "-i", "script", "db1"], &["bbftp"]] {
        assert!(error(line).contains("haul --pairs FILE"), "{line:?}");
    }
    let files = |name: &OsStr| name == "bbftp";
    let words = ["bbftp", "db1:"].map(OsString::from).into();
    assert!(matches!(parse(Dialect::Haul, words, &files), Ok(Command::Copy(..))), "a file of that name");
    for line in [&["--range", "1:2", "a", "db1:b"][..], &["sync", "--range=1:2", "a", "db1:b"]] {
        assert!(error(line).contains("haul read --range"), "{line:?}");
    }
}

#[test]
fn status_and_clean_take_paths() {
    let Ok(Command::Files(FileCommand::Status, values, _, paths)) =
        parse_words(&["status", "a", "--journal-dir=/j", "b"])
    else {
        panic!("no status");
    };
    assert_eq!(
        (values.last(&flags::partials::JOURNAL_DIR), paths),
        (Some(OsStr::new("/j")), vec!["a".into(), "b".into()])
    );
    assert!(
        matches!(parse_words(&["clean", "--json", "."]), Ok(Command::Files(FileCommand::Clean, values, ..)) if values.is_set(&flags::JSON))
    );
    for command in ["status", "clean"] {
        assert!(error(&[command]).contains("needs a path"));
        assert!(matches!(parse_words(&[command, "-h"]), Ok(Command::Print(_))));
    }
}

#[test]
fn a_sync_takes_sources_a_target_and_all_options_of_a_copy() {
    let Ok(Command::Sync(values, operands)) = parse_words(&["sync", "--delete", "--streams=4", "a", "b", "c"]) else {
        panic!("no sync");
    };
    assert_eq!(
        (values.last(&flags::DELETE), values.last(&flags::STREAMS)),
        (Some(OsStr::new("after")), Some(OsStr::new("4")))
    );
    assert_eq!(operands, ["a", "b", "c"]);
    assert!(
        matches!(parse_words(&["sync", "--infiles", "list", "b"]), Ok(Command::Sync(_, operands)) if operands == ["b"])
    );
    assert!(matches!(parse_words(&["sync", "-h"]), Ok(Command::Print(text)) if text == help::command("sync")));
    assert!(matches!(parse_words(&["help", "sync"]), Ok(Command::Print(text)) if text == help::command("sync")));
    for words in [&["sync"][..], &["sync", "a"]] {
        assert!(error(words).contains("haul sync SOURCE/ TARGET"), "{words:?}");
    }
    assert!(error(&["sync", "--idfile", "a", "b"]).contains("hint: --idfile took a as its "));
}

#[test]
fn the_demo_takes_options_of_a_copy_after_two_dashes() {
    let Ok(Command::Demo(own, copy)) = parse_words(&["demo", "--size", "1m", "-s2", "--", "--no-encrypt", "-v"]) else {
        panic!("not a demo");
    };
    assert_eq!(own.last(&flags::demo::SIZE), Some(OsStr::new("1m")));
    assert!(copy.is_set(&flags::NO_ENCRYPT));
    assert_eq!(copy.count(&flags::VERBOSE), 1);
}

#[test]
fn help_and_version() {
    let printed = |words: &[&str]| match parse_words(words) {
        Ok(Command::Print(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(printed(&["-h"]), help::short());
    for command in ["sync", "net", "ls", "serve"] {
        assert_eq!(printed(&[command, "-h"]), help::command(command));
    }
    assert_eq!(printed(&["job", "run", "-h"]), help::command("job"));
    assert_eq!(printed(&["-r", "--help", "all"]), help::full());
    assert_eq!(printed(&["demo", "--help"]), help::demo());
    assert_eq!(printed(&["--version"]), concat!("haul ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(matches!(parse_words(&["--version", "-v"]), Ok(Command::Version)));
}

/// As in rsync, where -h beside other words is --human-readable.
#[test]
fn a_letter_for_help_beside_other_words_changes_nothing() {
    for line in ["-h a b", "-a -h a b", "a b -h", "-h -v a b"] {
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(copy_of(&words).1, ["a", "b"], "{line}");
        assert!(matches!(parse_words(&[&["sync"], &words[..]].concat()), Ok(Command::Sync(..))), "{line}");
    }
    let Ok(Command::Files(FileCommand::Ls, own, ..)) = parse_words(&["ls", "-h", "a"]) else { panic!("no list") };
    assert!(own.is_set(&flags::files::ls::HUMAN));
}

#[test]
fn help_finds_an_option_by_any_of_its_names_and_commands_too() {
    let printed = |words: &[&str]| match parse_words(words) {
        Ok(Command::Print(text)) => text,
        other => panic!("{other:?}"),
    };
    let streams = "  -s, --streams N           use 1 to 256 parallel streams (default: automatic)\n\n\
                   More about it: docs/guide/slow-transfers.md in the sources\n";
    for name in ["streams", "--streams", "-s", "s", "strea"] {
        assert_eq!(printed(&["help", name]), streams, "{name}");
        if !name.starts_with('-') {
            assert_eq!(printed(&["--help", name]), streams, "{name}");
        }
    }
    assert_eq!(printed(&["help"]), help::short());
    assert_eq!(printed(&["help", "status"]), help::command("status"));
    assert!(printed(&["help", "ssh-port"]).contains("also --port"));
    assert!(printed(&["help", "-L"]).contains("--symlinks"));
}

#[test]
fn under_bbcps_name_there_are_no_commands_but_the_worker() {
    let parse = |words: &[&str]| {
        parse(Dialect::Bbcp, words.iter().map(OsString::from).collect(), &crate::args::local_files::PlainFiles)
    };
    assert!(matches!(parse(&["status", "h:"]), Ok(Command::Copy(_, operands)) if operands == ["status", "h:"]));
    assert!(matches!(parse(&["worker"]), Ok(Command::Worker(WorkerTask::Run { input: None, output: None }))));
    assert!(matches!(parse(&["-h"]), Ok(Command::Print(text)) if text.starts_with("Usage:   bbcp ")));
    assert!(matches!(parse(&["-#"]), Ok(Command::Print(text)) if text == version::VERSION));
    assert!(matches!(parse(&["-$"]), Ok(Command::Print(text)) if text.contains("MIT")));
    assert!(matches!(parse(&["--license", "all"]), Ok(Command::Notices)));
    let errors = [&[][..], &["a"], &["--json", "a", "b"], &["a", "b", "-f"], &["-L", "a", "b", "c"]];
    insta::assert_snapshot!(errors.map(|words| parse(words).unwrap_err().to_string()).join("\n---\n"), @r#"
        no source and no target given
        hint: bbcp SOURCE... TARGET copies; each is a path or [user@]host:path
        hint: bbcp -h lists the options
        ---
        no target given for a
        hint: bbcp a TARGET, where TARGET is a path or [user@]host:path
        ---
        unknown option --json
        hint: bbcp -h lists all options
        ---
        -f: under the name bbcp, options come before sources and target
        hint: move it to the front, or write ./-f for a file of that name
        ---
        -L: haul does not write NetLogger's events
        hint: --json gives the events of a copy, one object a line
        "#);
}

#[test]
fn a_mistyped_command_copies_no_file() {
    let meant = "no command or file is called verfy\nhint: did you mean: haul verify";
    assert_eq!(error(&["verfy", "-r", "tree", "host:/dst/"]), meant);
    assert_eq!(error(&["verfy", "host:/dst/"]), meant);
    let unknown = "no command or file is called dedup\nhint: haul --help lists the commands";
    assert_eq!(error(&["dedup", "-r", "there", "host:/dst/"]), unknown);
    assert_eq!(error(&["dedup"]), unknown);
    for copy in [
        &["there", "host:/dst/"][..],
        &["notes.txt", "there", "host:/dst/"],
        &["--dirbase", "base", "verfy", "there", "host:/dst/"],
        &["--pipe", "i", "verfy", "host:/dst/"],
        &["-", "host:/dst/"],
    ] {
        assert!(parse_words(copy).is_ok(), "{copy:?}");
    }
}

#[test]
fn words_of_other_programs_never_log_in_and_name_hauls() {
    for (words, hint) in [
        (&["stat", "ann@peer:/x"][..], "ssh ann@peer stat /x"),
        (&["chmod", "600", "peer:x"], "ssh peer chmod 600 x"),
        (&["chmod", "600", "there.txt"], "ssh HOST chmod PATH"),
        (&["chmod", "-v", "600", "peer:x"], "ssh HOST chmod PATH"),
        (&["touch", "peer:my dir/*"], "ssh HOST touch PATH"),
        (&["mv", "peer:a", "peer:b"], "ssh peer mv a b"),
        (&["mv", "there", "peer:"], "haul --remove-source-files there peer:"),
        (&["mv", "db1:a", "peer:a"], "haul --remove-source-files db1:a peer:a"),
        (&["move", "peer:a b", "there"], "haul --remove-source-files 'peer:a b' there"),
        (&["move", "peer:a"], "haul --remove-source-files SOURCE... TARGET moves"),
        (
            &["hash", "there"],
            "--checksum md5 prints digests during a copy; ssh HOST md5sum PATH prints those of files there",
        ),
        (&["rmdir", "haul://peer:1/"], "ssh HOST rmdir PATH"),
        (&["cat", "peer:/x"], "haul read HOST:PATH prints a file"),
        (&["get", "peer:/x", "."], "haul SOURCE... TARGET copies: omit that word"),
        (&["diff", "there", "peer:/x"], "haul verify SOURCE... TARGET compares"),
        (&["resume", "there", "peer:/x"], "rerun the interrupted command: it resumes"),
        (&["list"], "haul jobs shows jobs and detached copies, haul status PATH partial files"),
        (&["ping", "peer"], "haul net HOST measures the network, haul probe HOST:PATH the disks as well"),
    ] {
        assert_eq!(error(words), format!("no command or file is called {}\nhint: {hint}", words[0]));
    }
}

#[test]
fn iperfs_letters_name_options_of_net() {
    for (words, hint) in [
        (&["-R", "h"][..], "iperf's -R: --reverse"),
        (&["-t", "5", "h"], "iperf's -t: --duration TIME"),
        (&["-t5", "h"], "iperf's -t: --duration TIME"),
        (&["h", "-P", "4"], "iperf's -P: --streams N"),
        (&["-c", "h"], "iperf's -c: omit it: haul net HOST"),
        (&["h", "10"], "--duration TIME measures for TIME: 10, 1m"),
    ] {
        let error = error(&[&["net"], words].concat());
        assert!(error.ends_with(&format!("hint: {hint}")), "{words:?}: {error}");
    }
    for words in [&["-P", "2222", "h"][..], &["-P2222", "h"], &["-z", "-s", "4", "h"]] {
        assert!(matches!(parse_words(&[&["net"], words].concat()), Ok(Command::Net(..))), "{words:?}");
    }
}

#[test]
fn the_argument_of_config_is_a_host_and_no_path() {
    let host = |word: &str| command_host(OsStr::new(word));
    for (word, name) in [("db1", "db1"), ("root@db1:", "db1"), ("[::1]", "::1"), ("haul://db1:1/", "db1")] {
        assert_eq!(host(word).unwrap(), name);
    }
    for word in ["db1:x", "root@db1:/x", "./db1", "a/b"] {
        assert!(host(word).unwrap_err().to_string().contains("not a host"), "{word}");
    }
}

#[test]
fn an_option_that_took_an_operand_is_named() {
    for (words, taken) in [
        (&["--exclude", "there", "peer:x"][..], "--exclude took there as its PATTERN"),
        (&["-s", "there", "peer:"], "--streams took there as its N"),
        (&["sync", "--streams", "a/", "b"], "--streams took a/ as its N"),
    ] {
        assert!(error(words).ends_with(&format!("hint: {taken}")), "{}", error(words));
    }
}

#[test]
fn a_local_file_with_a_host_like_name_is_not_guessed() {
    let parse = |words: &[&str]| {
        parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &|name: &OsStr| name == "a@12:30.log")
    };
    for command in [&[][..], &["sync"], &["verify"], &["sweep"]] {
        let error = parse(&[command, &["a@12:30.log", "peer:"]].concat()).unwrap_err().to_string();
        let hint = "hint: write ./a@12:30.log for the file, or a@[12]:30.log for the host";
        assert_eq!(error.lines().nth(1), Some(hint), "{command:?}");
    }
    for copy in [
        &["./a@12:30.log", "peer:"][..],
        &["a@[12]:30.log", "b"],
        &["--dirbase", "base", "a@12:30.log", "b"],
        &["--pipe", "i", "a@12:30.log", "b"],
    ] {
        assert!(parse(copy).is_ok(), "{copy:?}");
    }
}

#[test]
fn a_whole_home_or_system_is_synchronised_only_where_it_is_spelled_out() {
    for (root, explicit) in [("h:", "h:./"), ("u@[::1]:", "u@[::1]:./"), ("h:/", "h:/."), ("/", "/.")] {
        for roots in [["a", root], [root, "a"]] {
            let error = error(&[&["twoway"][..], &roots].concat());
            assert!(error.contains(&format!("hint: name a directory, or write {explicit} for")), "{error}");
        }
        assert!(matches!(parse_words(&["twoway", "a", explicit]), Ok(Command::Twoway(..))), "{explicit}");
    }
}

#[test]
fn a_plan_of_twoway_has_a_letter() {
    let Ok(Command::Twoway(own, ..)) = parse_words(&["twoway", "-n", "a", "b"]) else { panic!("no command") };
    assert!(own.is_set(&flags::twoway::PLAN));
}

#[test]
fn printing_commands_take_no_paths() {
    let print = |words: &[&str]| match parse_words(words) {
        Ok(Command::Print(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(print(&["version"]), version::VERSION);
    assert_eq!(print(&["man"]), manual::page());
    assert_eq!(print(&["man", "job"]), manual::command_page("job", &help::command("job")).unwrap());
    assert_eq!(print(&["completions", "zsh"]), completions::script("zsh").unwrap());
    assert_eq!(print(&["man", "--help"]), help::command("man"));
    assert!(matches!(parse_words(&["version", "-v"]), Ok(Command::Version)));
    let errors = [&["completions"][..], &["completions", "csh"], &["man", "ssh"], &["version", "peer:"]].map(error);
    insta::assert_snapshot!(errors.join("\n"), @r#"
        haul completions needs the name of a shell
        hint: haul completions bash, zsh or fish
        haul completions csh: must be one of bash, zsh and fish
        ssh: haul man takes no such argument
        hint: haul man --help
        peer:: haul version takes no such argument
        hint: haul version --help
        "#);
}

#[test]
fn errors_name_the_word_and_the_remedy() {
    insta::assert_snapshot!(
        [&[][..], &["a"], &["there"], &["dmeo"], &["--recusive", "a", "b"], &["-l", "a", "b"], &["-s"], &["--source-command"],
         &["a", "b", "--checksums"], &["--force=yes", "a", "b"], &["--help", "mex"], &["demo", "a"], &["demo", "-r"],
         &["demo", "--", "a"], &["worker", "a"], &["--no-", "a", "b"], &["-s", "-r", "a", "b"], &["help", "streems"], &["help", "zzz"], &["hepl"], &["--parallel", "4", "a", "b"], &["--retry", "5", "a", "b"], &["-streams", "4", "a", "b"]]
            .map(|words| format!("$ haul {}\n{}", words.join(" "), error(words)))
            .join("\n\n"),
        @"
    $ haul 
    no source and no target given
    hint: haul SOURCE... TARGET copies; each is a path or [user@]host:path
    hint: haul demo copies generated data on this machine
    hint: haul --help lists commands and options

    $ haul a
    no target given for a
    hint: haul a TARGET, where TARGET is a path or [user@]host:path

    $ haul there
    no target given for there
    hint: haul there TARGET, where TARGET is a path or [user@]host:path

    $ haul dmeo
    no command or file is called dmeo
    hint: did you mean: haul demo

    $ haul --recusive a b
    unknown option --recusive
    hint: did you mean: --recursive

    $ haul -l a b
    -l is no option of haul
    hint: scp's -l: --xfrrate RATE
    hint: rsync's -l: omit it
    hint: cp's -l: --link-dest DIR
    hint: bbcp's -l: --logfile FILE; haul bbcp takes bbcp's letters

    $ haul -s
    --streams needs an argument
    hint: -s, --streams N: use 1 to 256 parallel streams (default: automatic)

    $ haul --source-command
    --source-command needs an argument
    hint: --source-command CMD: command that starts haul on a remote source (placeholders: see --target-command)

    $ haul a b --checksums
    --checksums needs an argument
    hint: --checksums FILE: write a digest list for b3sum --check (-: standard output)

    $ haul --force=yes a b
    --force takes no argument

    $ haul --help mex
    no option or command is called mex; haul --help all lists them

    $ haul demo a
    a: haul demo takes no source and no target
    hint: haul demo --help

    $ haul demo -r
    haul demo has no -r
    hint: haul help demo lists the options of haul demo
    hint: copy options follow --, as in haul demo --keep -- --no-encrypt

    $ haul demo -- a
    a: haul demo takes only copy options after --

    $ haul worker a
    haul worker is internal: haul starts it at each end of a copy

    $ haul --no- a b
    --no- is ambiguous: --no-times, --no-empty-dirs, --no-resume, --no-keep, --no-encrypt, --no-ssh-reuse, --no-deploy

    $ haul -s -r a b
    --streams needs an argument, but -r is an option
    hint: -s, --streams N: use 1 to 256 parallel streams (default: automatic)

    $ haul help streems
    no option or command is called streems; haul --help all lists them
    hint: did you mean: haul help streams

    $ haul help zzz
    no option or command is called zzz; haul --help all lists them

    $ haul hepl
    no command or file is called hepl
    hint: did you mean: haul help

    $ haul --parallel 4 a b
    unknown option --parallel
    hint: --streams N sets the number of parallel streams

    $ haul --retry 5 a b
    unknown option --retry
    hint: --retries N, or --retry-for TIME

    $ haul -streams 4 a b
    -streams: -e takes an argument in rsync
    hint: write --streams
    "
    );
}
