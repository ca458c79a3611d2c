//! Commands, options and operands, and what is said of words that make no sense.

use super::*;

fn parse_words(words: &[&str]) -> Result<Command, UsageError> {
    parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &|name| name == "there")
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
    let (values, operands) = copy_of(&["-rfs4", "a", "-p", "b", "--", "-c"]);
    assert!(values.flag("recursive") && values.flag("force") && values.flag("preserve"));
    assert_eq!(values.last("streams"), Some(OsStr::new("4")));
    assert_eq!(operands, ["a", "b", "-c"]);
}

#[test]
fn typed_twice_the_last_holds_and_repeatable_ones_add_up() {
    let (values, _) =
        copy_of(&["-r", "-r", "-s1", "--streams=2", "--ssh-option", "A=1", "--ssh-option=B=2", "-vv", "a", "b"]);
    assert!(values.flag("recursive"));
    assert_eq!(values.last("streams"), Some(OsStr::new("2")));
    assert_eq!(values.each("ssh-option"), ["A=1", "B=2"]);
    assert_eq!(values.count("verbose"), 2);
}

#[test]
fn bbcp_letters_mean_what_they_mean_there() {
    let (values, _) = copy_of(&[
        "-k",
        "-A",
        "-P",
        "2",
        "-w",
        "1m",
        "-@",
        "follow",
        "-i",
        "key",
        "-S",
        "ssh %H haul",
        "-T",
        "t",
        "a",
        "b",
    ]);
    for (id, value) in [("progress", "2"), ("windowsz", "1m"), ("symlinks", "follow"), ("idfile", "key")] {
        assert_eq!(values.last(id), Some(OsStr::new(value)), "{id}");
    }
    assert!(values.flag("keep") && values.flag("mkdir") && !values.flag("preserve"));
    assert_eq!(values.last("source-command"), Some(OsStr::new("ssh %H haul")));
}

#[test]
fn operands_may_be_any_bytes() {
    let odd = OsString::from(OsStr::from_bytes(b"\xff\n"));
    let command = parse(Dialect::Haul, vec![odd.clone(), "b".into()], &|_| false);
    assert!(matches!(command, Ok(Command::Copy(_, operands)) if operands[0] == odd));
}

#[test]
fn a_worker_is_one_even_where_a_file_has_that_name() {
    let parse = |words: &[&str]| parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &|_| true);
    assert!(matches!(parse(&["worker"]), Ok(Command::Worker(WorkerArguments::Run { input: None, output: None }))));
    assert!(matches!(parse(&["worker", "--identify"]), Ok(Command::Worker(WorkerArguments::Identify))));
    assert!(
        matches!(parse(&["worker", "--verify", "ab"]), Ok(Command::Worker(WorkerArguments::Verify(hex))) if hex == "ab")
    );
    assert!(parse(&["worker", "host:"]).unwrap_err().to_string().contains("./worker"));
}

#[test]
fn a_command_that_is_also_a_file_is_not_guessed_at() {
    let parse = |words: &[&str]| parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &|_| true);
    assert!(parse(&["demo", "host:"]).unwrap_err().to_string().contains("./demo"));
    assert!(parse(&["demo", "-r", "host:"]).unwrap_err().to_string().contains("./demo"));
    assert!(matches!(parse(&["demo", "--keep"]), Ok(Command::Demo(..))));
}

#[test]
fn status_and_clean_take_paths() {
    let Ok(Command::Status(values, paths)) = parse_words(&["status", "a", "--append=/j", "b"]) else {
        panic!("no status");
    };
    assert_eq!((values.last("append"), paths), (Some(OsStr::new("/j")), vec!["a".into(), "b".into()]));
    assert!(matches!(parse_words(&["clean", "--json", "."]), Ok(Command::Clean(values, _)) if values.flag("json")));
    for command in ["status", "clean"] {
        assert!(error(&[command]).contains("PATH"));
        assert!(matches!(parse_words(&[command, "-h"]), Ok(Command::Print(_))));
        let parse = |words: &[&str]| parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &|_| true);
        assert!(parse(&[command, "host:"]).unwrap_err().to_string().contains(&format!("./{command}")));
        assert!(parse(&[command, "-r", "host:"]).unwrap_err().to_string().contains(&format!("./{command}")));
    }
}

#[test]
fn a_sync_takes_sources_a_target_and_all_options_of_a_copy() {
    let Ok(Command::Sync(values, operands)) = parse_words(&["sync", "--delete", "--streams=4", "a", "b", "c"]) else {
        panic!("no sync");
    };
    assert_eq!((values.last("delete"), values.last("streams")), (Some(OsStr::new("after")), Some(OsStr::new("4"))));
    assert_eq!(operands, ["a", "b", "c"]);
    assert!(
        matches!(parse_words(&["sync", "--infiles", "list", "b"]), Ok(Command::Sync(_, operands)) if operands == ["b"])
    );
    assert!(matches!(parse_words(&["sync", "-h"]), Ok(Command::Print(text)) if text == help::command("sync")));
    assert!(matches!(parse_words(&["help", "sync"]), Ok(Command::Print(text)) if text == help::command("sync")));
    for words in [&["sync"][..], &["sync", "a"], &["sync", "--idfile", "a", "b"]] {
        assert!(error(words).contains("haul sync SOURCE/ TARGET"), "{words:?}");
    }
    assert!(error(&["sync", "-i", "a", "b"]).contains("--items"));
    let parse = |words: &[&str]| parse(Dialect::Haul, words.iter().map(OsString::from).collect(), &|_| true);
    assert!(parse(&["sync", "a", "db1:"]).unwrap_err().to_string().contains("./sync"));
    assert!(parse(&["sync", "-n", "db1:"]).unwrap_err().to_string().contains("./sync"));
}

#[test]
fn the_demo_takes_options_of_a_copy_after_two_dashes() {
    let Ok(Command::Demo(own, copy)) = parse_words(&["demo", "--size", "1m", "-s2", "--", "--no-encrypt", "-v"]) else {
        panic!("not a demo");
    };
    assert_eq!(own.last("size"), Some(OsStr::new("1m")));
    assert!(copy.flag("no-encrypt"));
    assert_eq!(copy.count("verbose"), 1);
}

#[test]
fn help_and_version() {
    let printed = |words: &[&str]| match parse_words(words) {
        Ok(Command::Print(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(printed(&["-h"]), help::short());
    assert_eq!(printed(&["-r", "--help", "all"]), help::full());
    assert_eq!(printed(&["demo", "--help"]), help::demo());
    assert_eq!(printed(&["--version"]), concat!("haul ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(matches!(parse_words(&["--version", "-v"]), Ok(Command::Version)));
}

#[test]
fn help_finds_an_option_by_any_of_its_names_and_commands_too() {
    let printed = |words: &[&str]| match parse_words(words) {
        Ok(Command::Print(text)) => text,
        other => panic!("{other:?}"),
    };
    let streams = "  -s, --streams N           parallel streams, 1 to 256 (default: automatic)\n";
    for name in ["streams", "--streams", "-s", "s", "str"] {
        assert_eq!(printed(&["help", name]), streams, "{name}");
        if !name.starts_with('-') {
            assert_eq!(printed(&["--help", name]), streams, "{name}");
        }
    }
    assert_eq!(printed(&["help"]), help::short());
    assert_eq!(printed(&["help", "status"]), help::command("status"));
    assert!(printed(&["help", "window"]).contains("also -W"));
    assert!(printed(&["help", "-L"]).contains("NetLogger's events"));
    let with_file = parse(Dialect::Haul, vec!["help".into(), "h:".into()], &|_| true);
    assert!(with_file.unwrap_err().to_string().contains("./help"));
}

#[test]
fn under_bbcps_name_there_are_no_commands_but_the_worker() {
    let parse = |words: &[&str]| parse(Dialect::Bbcp, words.iter().map(OsString::from).collect(), &|_| false);
    assert!(matches!(parse(&["status", "h:"]), Ok(Command::Copy(_, operands)) if operands == ["status", "h:"]));
    assert!(matches!(parse(&["worker"]), Ok(Command::Worker(WorkerArguments::Run { input: None, output: None }))));
    assert!(matches!(parse(&["-h"]), Ok(Command::Print(text)) if text.starts_with("bbcp ")));
    assert!(matches!(parse(&["-#"]), Ok(Command::Print(text)) if text == version::VERSION));
    assert!(matches!(parse(&["-$"]), Ok(Command::Print(text)) if text.contains("MIT")));
    let errors = [&[][..], &["a"], &["--json", "a", "b"], &["a", "b", "-f"], &["-L", "a", "b", "c"]];
    insta::assert_snapshot!(errors.map(|words| parse(words).unwrap_err().to_string()).join("\n---\n"), @r#"
        nothing to copy: say what, and where to
        bbcp SOURCE... TARGET      each a path, or [user@]host:path
        bbcp -h                    the options
        ---
        a: only one operand: say where it is to go
        bbcp a TARGET      TARGET is a path, or [user@]host:path
        ---
        bbcp has no option --json
        bbcp -h lists them; under its own name haul has more
        ---
        -f: under the name bbcp, options come before operands
        move it to the front; a file of that name is written ./-f
        ---
        -L: haul does not write NetLogger's events
        --json gives the events of a copy, one object a line
        "#);
}

#[test]
fn a_mistyped_command_copies_nothing() {
    let meant = "verfy: no command and no file of that name\ndid you mean haul verify?";
    assert_eq!(error(&["verfy", "-r", "tree", "host:/dst/"]), meant);
    assert_eq!(error(&["verfy", "host:/dst/"]), meant);
    let unknown = "diff: no command and no file of that name\nhaul --help lists the commands";
    assert_eq!(error(&["diff", "-r", "there", "host:/dst/"]), unknown);
    for copy in [
        &["there", "host:/dst/"][..],
        &["diff", "host:/dst/"],
        &["notes.txt", "there", "host:/dst/"],
        &["-d", "base", "verfy", "there", "host:/dst/"],
        &["-N", "i", "verfy", "host:/dst/"],
        &["-", "host:/dst/"],
    ] {
        let words = copy.iter().map(OsString::from).collect();
        assert!(parse(Dialect::Haul, words, &|name| name == "there").is_ok(), "{copy:?}");
    }
}

#[test]
fn errors_name_the_word_and_the_remedy() {
    insta::assert_snapshot!(
        [&[][..], &["a"], &["there"], &["dmeo"], &["--recusive", "a", "b"], &["-J", "a", "b"], &["-s"], &["-S"],
         &["a", "b", "--checksums"], &["--force=yes", "a", "b"], &["--help", "me"], &["demo", "a"], &["demo", "-r"],
         &["demo", "--", "a"], &["worker", "a"], &["--no-", "a", "b"], &["-s", "-r", "a", "b"], &["help", "streems"], &["help", "stat"], &["hepl"], &["-L", "x", "a", "b"]]
            .map(|words| format!("$ haul {}\n{}", words.join(" "), error(words)))
            .join("\n\n"),
        @r#"
        $ haul 
        nothing to copy: say what, and where to
        haul SOURCE... TARGET      each a path, or [user@]host:path
        haul demo                  a copy on this machine, to see it work
        haul --help                the options

        $ haul a
        a: only one operand: say where it is to go
        haul a TARGET      TARGET is a path, or [user@]host:path

        $ haul there
        there: only one operand: say where it is to go
        haul there TARGET      TARGET is a path, or [user@]host:path

        $ haul dmeo
        dmeo: no command and no file of that name
        did you mean haul demo?

        $ haul --recusive a b
        there is no option --recusive
        did you mean --recursive?
        haul --help all lists them; a file of that name is written ./--recusive

        $ haul -J a b
        there is no option -J
        scp's -J GATE is --ssh-option ProxyJump=GATE
        haul --help all lists them; a file of that name is written ./-J

        $ haul -s
        --streams needs an argument
        -s, --streams N: parallel streams, 1 to 256 (default: automatic)

        $ haul -S
        --source-command needs an argument
        -S, --source-command CMD: starts haul at a remote source (see -T)

        $ haul a b --checksums
        --checksums needs an argument
        --checksums FILE: lines for b3sum --check (-: standard output)

        $ haul --force=yes a b
        --force takes no argument

        $ haul --help me
        there is no option and no command me
        did you mean haul help mode?
        haul help all

        $ haul demo a
        a: haul demo takes no operands: it makes its own data
        haul demo --help

        $ haul demo -r
        there is no option -r
        haul --help all lists them; a file of that name is written ./-r
        options of a copy follow --: haul demo --keep -- --no-encrypt

        $ haul demo -- a
        a: after -- haul demo takes options of a copy, and no operands

        $ haul worker a
        haul worker is what haul starts at each end of a copy; it is not for people

        $ haul --no- a b
        --no- could be --no-empty-dirs, --no-resume, --no-keep, --no-encrypt, --no-deploy

        $ haul -s -r a b
        --streams needs an argument, and -r is an option
        -s, --streams N: parallel streams, 1 to 256 (default: automatic)

        $ haul help streems
        there is no option and no command streems
        did you mean haul help streams?
        haul help all

        $ haul help stat
        there is no option and no command stat
        did you mean haul help status?
        haul help all

        $ haul hepl
        hepl: no command and no file of that name
        did you mean haul help?

        $ haul -L x a b
        -L: haul does not write NetLogger's events
        --json gives the events of a copy, one object a line
        "#
    );
}
