//! haul's output, its destination, and exit statuses.

use std::fs;
use std::time::Duration;

use haul_e2e::{HostPair, ProgramRun, Remote, Sandbox, Terminal, compare, is_root_or_skip, shell};

#[test]
fn without_a_terminal_the_only_output_is_the_summary() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.tree("source");
    let run = remote
        .haul(&sandbox)
        .args(["-r", "--fsync", "none", "source"])
        .arg(remote.at(sandbox.path("target")))
        .run()
        .succeeds();
    assert_eq!(run.stdout, "", "{}", run.account());
    assert!(!run.stderr.contains(['\r', '\x1b']), "{}", run.account());
    let lines: Vec<_> = run.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", run.account());
    assert!(lines[0].starts_with("127 files, ") && lines[0].contains("every byte verified"), "{}", run.account());
    run.says(["xxh3"]);
}

#[test]
fn lost_output_is_an_error_of_every_command() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    let commands = [
        "--help",
        "--help all",
        "--version",
        "version",
        "survey source",
        "survey --json source",
        "status source",
        "status --json source",
        "clean source",
        "config",
        "--json -r -f source t",
        "sync --items source/ t1",
        "sync --dry-run source/ t2",
        "verify -r --json source source",
        "--checksums - -r -f source t",
        "--checksum md5 -r -f source t",
        "-f source/big -",
    ];
    for command in commands {
        let run = shell(&sandbox, &format!("exec \"$0\" {command} > /dev/full")).run();
        assert!(run.status.is_some_and(|status| status != 0), "{command}: {}", run.account());
        run.says(["No space left on device"]);
    }
    for command in ["--help all", "survey source", "version"] {
        let run = shell(&sandbox, &format!("set -o pipefail; \"$0\" {command} | :")).run();
        run.succeeds().does_not_say("cannot be written");
    }
    for log in ["--logfile /dev/full source/big t3", "-v --logfile /dev/full source/big t4"] {
        shell(&sandbox, &format!("\"$0\" {log}")).run().ends(1).says(["/dev/full", "No space left on device"]);
    }
}

#[test]
fn quiet_is_silent_until_a_failure() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    let run = sandbox.haul(["--quiet", "-r", "source", "target"]).run().succeeds();
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
    sandbox.file("target/big", "another");
    // To the same place again: the file exists.
    sandbox.haul(["--quiet", "source/big", "target/big"]).run().ends(1).says(["target/big"]);
}

#[test]
fn json_is_one_event_a_line_and_adds_up() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.tree("source");
    sandbox.dir("target");
    sandbox.haul(["-r", "source", "target"]).run().succeeds();
    // Of the existing files, one differs and one is missing.
    sandbox.file("target/source/big", "in the way");
    fs::remove_file(sandbox.path("target/source/a frame")).unwrap();
    let run = remote.haul(&sandbox).args(["--json", "-r", "source"]).arg(remote.at(sandbox.path("target"))).run();
    let run = run.ends(1);
    let events = run.events();
    assert!(events.iter().all(|event| event["event"].is_string()), "{}", run.account());
    let summary = run.summary();
    let number = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("no {name} in {summary}"));
    let counts = ["files_copied", "files_skipped", "failed", "status", "bytes"].map(number);
    assert_eq!(counts, [1, 125, 1, 1, 1024 * 1024], "{summary}");
    let failed = events.iter().filter(|event| event.to_string().contains("source/big") && event["event"] != "progress");
    assert!(failed.count() >= 1, "{}", run.account());
    let seconds = summary["seconds"].as_f64().expect("seconds");
    let rate = summary["bytes_per_s"].as_f64().expect("bytes_per_s");
    assert!(seconds > 0.0 && seconds <= run.elapsed.as_secs_f64() + 0.1, "{summary}");
    assert!((rate * seconds / number("bytes") as f64 - 1.0).abs() < 0.05, "{summary}");
    for name in ["source_cpu_s", "target_cpu_s"] {
        assert!(summary[name].as_f64().is_some_and(|value| value >= 0.0), "{summary}");
    }
    for name in ["source_peak_bytes", "target_peak_bytes"] {
        assert!(number(name) > 1_000_000, "{summary}");
    }
}

#[test]
fn progress_lines_are_hauls_and_the_last_has_the_average() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 12_000_000);
    let run = sandbox.haul(["--progress=1", "--xfrrate", "4m", "source", "target"]).run().succeeds();
    let lines: Vec<_> = run.stderr.lines().filter(|line| line.starts_with("source  ")).collect();
    let most = run.elapsed.as_secs() + 1;
    assert!(lines.len() >= 2 && lines.len() as u64 <= most, "one line a second\n{}", run.account());
    let fields = |line: &str| line.split("  ").map(str::to_owned).collect::<Vec<_>>();
    let first = fields(lines[0].trim_end());
    assert!(first[1].ends_with(" %") && first[2].ends_with(" of 12.0 MB"), "{first:?}");
    assert!(first[3].ends_with("B/s") && !lines[0].contains("files"), "{first:?}");
    let last = fields(lines[lines.len() - 1]);
    assert_eq!(last[1..3], ["100 %", "12.0 of 12.0 MB"], "{}", run.account());
    let rate = last[3].strip_suffix(" MB/s").and_then(|rate| rate.parse::<f64>().ok());
    assert!(rate.is_some_and(|rate| (1.0..6.0).contains(&rate)), "at 4 MB/s\n{}", run.account());
    assert!(!run.stderr.contains("bbcp") && !run.stderr.contains("effectively"), "{}", run.account());
}

#[test]
fn a_pipe_is_shown_as_stdin_and_has_no_file_counter() {
    let sandbox = Sandbox::new();
    let script = r#"(head -c 1000000 /dev/zero; sleep 3) | "$0" --progress=1 - target"#;
    let run = shell(&sandbox, script).run().succeeds();
    assert!(run.stderr.lines().any(|line| line.starts_with("stdin  ")), "{}", run.account());
    assert!(!run.stderr.contains("files"), "{}", run.account());
}

#[test]
fn a_narrow_terminal_has_complete_fields() {
    let sandbox = Sandbox::new();
    sandbox.big_file("big100.bin", 40_000_000);
    let haul = sandbox.haul(["--xfrrate", "2m", "big100.bin", "target"]).env("TERM", "xterm");
    let terminal = Terminal::start(haul, 40, 24);
    let is_whole = |line: &str| {
        line.starts_with("big100.bin  ") && line.contains(" %  ") && line.contains("B/s  ") && line.ends_with(" s left")
    };
    terminal.comes_to("name, percent, rate and time left", |screen| screen.lines().map(str::trim_end).any(is_whole));
}

#[test]
fn a_terminal_gets_a_bar_and_keeps_its_errors() {
    if !is_root_or_skip("a slow cable") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 100);
    sandbox.big_file("source", 16_000_000);
    let haul = pair.haul(&sandbox).arg("source").arg(pair.at(sandbox.path("target"))).into_command();
    let words = std::iter::once(haul.get_program()).chain(haul.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let script = sandbox.script("copy", &format!("#!/bin/sh\nexec {}\n", words.join(" ")));
    let run = shell(&sandbox, &format!("TERM=xterm script -qec {} /dev/null", script.display())).run().succeeds();
    assert!(run.stdout.contains('\r'), "no bar was drawn\n{}", run.account());
    assert!(run.stdout.contains("MB/s") && run.stdout.contains("every byte verified"), "{}", run.account());
    compare(&sandbox.path("source"), &sandbox.path("target")).unwrap();
}

#[test]
fn the_version_and_the_help_are_on_standard_output() {
    let sandbox = Sandbox::new();
    for word in ["--version", "version"] {
        let run = sandbox.haul([word]).run().succeeds();
        assert!(run.stdout.starts_with("haul ") && run.stdout.lines().count() == 1, "{}", run.account());
    }
    for flag in ["--help", "-h"] {
        let run = sandbox.haul([flag]).run().succeeds();
        assert!(run.stdout.lines().count() <= 40, "more than a screen\n{}", run.account());
        for word in ["--recursive", "--dry-run", "sweep", "copies"] {
            assert!(run.stdout.contains(word), "{word}\n{}", run.account());
        }
        assert_eq!(run.stderr, "");
    }
    let all = sandbox.haul(["--help", "all"]).run().succeeds().stdout;
    assert!(all.contains("--no-deploy") && all.contains("--cipher"), "{all}");
    assert!(!all.contains("--identify"), "internal things are not shown\n{all}");
}

#[test]
fn mistyped_arguments_are_status_2_with_a_hint() {
    let sandbox = Sandbox::new();
    let usage = |words: &[&str], phrases: &[&str]| {
        let run: ProgramRun = sandbox.haul(words).run().ends(2).says(phrases.iter().copied());
        assert_eq!(run.stdout, "", "{}", run.account());
    };
    sandbox.file("source", "content");
    usage(&[], &["haul"]);
    usage(&["source"], &["target"]);
    usage(&["--recusive", "source", "target"], &["--recusive", "--recursive"]);
    usage(&["-s", "0", "source", "target"], &["-s", "256"]);
    usage(&["-s", "many", "source", "target"], &["many"]);
    usage(&["-w", "12x", "source", "target"], &["12x"]);
    usage(&["--cipher", "rot13", "source", "target"], &["rot13", "aes-256-gcm"]);
    usage(&["--symlinks", "folow", "source", "target"], &["folow", "follow"]);
    usage(&["--ssh-port", "70000", "source", "target"], &["70000"]);
    usage(&["--frame", "300k", "source", "target"], &["300k", "256k"]);
    assert!(!sandbox.path("target").exists());
}

#[test]
fn words_of_other_programs_end_before_a_login() {
    let sandbox = Sandbox::new();
    let bin = sandbox.dir("bin");
    sandbox.script("bin/ssh", "#!/bin/sh\n>>logged-in\nexit 255\n");
    sandbox.file("12:30:00.log", "content");
    sandbox.file("tree/file", "content");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let run = |words: &[&str]| sandbox.haul(words).env("PATH", &path).run();
    for (words, hint) in [
        (&["stat", "peer:/x"][..], "ssh peer stat /x"),
        (&["df", "peer:"], "ssh peer df ."),
        (&["get", "peer:/x", "."], "haul SOURCE... TARGET copies: omit that word"),
        (&["synch", "tree", "peer:"], "did you mean: haul sync"),
        (&["verfy", "tree", "peer:"], "did you mean: haul verify"),
        (&["-rf", "tree", "peer:"], "a group of letters is rsync's; write haul's apart: -r -f"),
        (&["list"], "haul jobs shows jobs and detached copies, haul status PATH partial files"),
        (&["12:30:00.log", "peer:"], "write ./12:30:00.log for the file, or [12]:30:00.log for the host"),
        (&["sync", "12:30:00.log", "peer:"], "write ./12:30:00.log"),
        (&["s3://bucket/x", "."], "haul copies between file systems; for object stores use rclone"),
        (&["https://example.com/x", "."], "haul copies between file systems; for object stores use rclone"),
        (
            &["sync", "-avz", "--munge-links", "tree/", "peer:t"],
            "links are kept as they are; --symlinks ignore skips them",
        ),
    ] {
        run(words).ends(2).says([format!("hint: {hint}").as_str()]);
    }
    assert!(!sandbox.path("logged-in").exists());
    run(&["[12]:30:00.log", "."]).ends(3);
    assert!(sandbox.path("logged-in").exists(), "brackets name a host");
}

#[test]
fn the_demo_copies_compares_and_cleans_up() {
    let sandbox = Sandbox::new();
    let place = sandbox.dir("tmp");
    let run = sandbox.haul(["demo", "--size", "24m", "--streams", "3", "--", "-v"]).env("TMPDIR", &place);
    let run = run.limit(Duration::from_secs(40)).run().succeeds();
    let said = run.stdout.clone() + &run.stderr;
    for phrase in ["verified", "identical", "tcp", "3 streams"] {
        assert!(said.contains(phrase), "did not say {phrase:?}\n{}", run.account());
    }
    assert_eq!(haul_e2e::listing(&place), Vec::<String>::new(), "data was left behind");
}

#[test]
fn the_manual_and_completions_are_made_from_the_table() {
    let sandbox = Sandbox::new();
    let page = sandbox.haul(["man"]).run().succeeds().stdout;
    assert_eq!(page, sandbox.haul(["help", "man"]).run().succeeds().stdout);
    assert!(page.starts_with(".TH HAUL 1 ") && page.contains("\\-\\-no\\-deploy"), "{page}");
    for (name, line, offered) in [
        ("completions", "haul --stre", "--streams"),
        ("completions", "haul stat", "status"),
        ("completions", "haul job fin", "finish"),
        ("help", "haul --unbuffered s", "s  st"),
    ] {
        let script = r#"source <("$0" NAME bash); compopt() { :; }
            COMP_LINE='TYPED'; COMP_POINT=${#COMP_LINE}; _haul haul "${COMP_LINE##* }"; echo "${COMPREPLY[@]}""#;
        let run = shell(&sandbox, &script.replace("NAME", name).replace("TYPED", line)).run().succeeds();
        assert_eq!(run.stdout.trim(), offered, "{}", run.account());
    }
    for (name, check) in [
        ("zsh", "zsh -fc 'words=(haul job run \"\") CURRENT=4; _arguments() { print -l -- $@ }; source ./script'"),
        ("fish", "fish -c 'source script; complete -C \"haul job run --s\"; complete -C \"haul job \"'"),
    ] {
        if shell(&sandbox, &format!("command -v {name}")).run().status == Some(0) {
            let run = shell(&sandbox, &format!(r#""$0" completions {name} >script; {check}"#)).run().succeeds();
            assert_eq!(run.stderr, "", "{}", run.account());
            assert!(run.stdout.contains("--slurm") && !run.stdout.contains("--once"), "{}", run.account());
        }
    }
}

#[test]
fn a_file_gets_ten_failures_and_their_number_and_a_log_gets_all() {
    let sandbox = Sandbox::new();
    sandbox.dir("target");
    let gone: Vec<_> = (0..13).map(|number| format!("./gone{number}")).collect();
    let copy = || sandbox.haul(&gone).arg("target");
    let run = copy().run().ends(1).says(["3 more failures: --json or --logfile FILE lists all"]);
    assert_eq!(run.stderr.matches("gone").count(), 10, "{}", run.account());
    copy().args(["--logfile", "log"]).run().ends(1);
    let log = fs::read_to_string(sandbox.path("log")).unwrap();
    assert!(log.matches("gone").count() == 13 && !log.contains("more failures"), "{log}");
}

#[test]
fn v_names_what_changes_as_rsync_does() {
    let sandbox = Sandbox::new();
    for name in ["s/sub/new", "s/changed", "s/same", "t/gone", "t/old/file"] {
        sandbox.file(name, name);
    }
    sandbox.file("t/changed", "of another size");
    sandbox.haul(["sync", "s/same", "t/same"]).run().succeeds();
    let run = sandbox.haul(["sync", "-v", "--delete", "s/", "t"]).run().succeeds().says(["connected:", "cpu "]);
    let mut lines: Vec<_> = run.stdout.lines().collect();
    lines.sort_unstable();
    let named = ["deleting t/gone", "deleting t/old/", "deleting t/old/file", "t/changed", "t/sub/", "t/sub/new"];
    assert_eq!(lines, named, "{}", run.account());
    run.does_not_say("sandbox").does_not_say("memory");
    assert_eq!(sandbox.haul(["sync", "-v", "s/", "t"]).run().succeeds().stdout, "");
    let items = sandbox.haul(["-v", "--items", "s/same", "copy"]).run().succeeds();
    assert_eq!(items.stdout, "created    copy\n", "{}", items.account());
    let json = sandbox.haul(["-v", "--json", "s/same", "copy2"]).run().succeeds();
    assert!(!json.stdout.contains("\"item\""), "{}", json.account());
    let piped = sandbox.haul(["-v", "s/same", "-"]).run().succeeds();
    assert_eq!(piped.stdout, "s/same", "{}", piped.account());
}

#[test]
fn colours_follow_the_meaning_and_can_be_refused_or_forced() {
    let sandbox = Sandbox::new();
    sandbox.file("home/.ssh/config", "Host peer\n");
    sandbox.file("file", "content");
    let copy = |names: &[&str]| {
        let haul = names.iter().fold(sandbox.haul(["-f", "file", "peer"]), |haul, name| haul.env(name, "1"));
        let run = haul.run().succeeds();
        fs::remove_file(sandbox.path("peer")).unwrap();
        run.stderr
    };
    let forced = copy(&["CLICOLOR_FORCE"]);
    assert!(forced.starts_with("\x1b[33mhaul:\x1b[0m peer is a local path here"), "{forced:?}");
    assert!(forced.contains("\n\x1b[32m1 file, 7 bytes in "), "{forced:?}");
    for names in [&[][..], &["NO_COLOR", "CLICOLOR_FORCE"]] {
        assert!(!copy(names).contains('\x1b'), "{names:?}");
    }
    let missing = sandbox.haul(["verify"]).env("CLICOLOR_FORCE", "1").run().ends(2).stderr;
    assert!(missing.starts_with("\x1b[31mhaul:\x1b[0m ") && missing.contains("      \x1b[2mhint: "), "{missing:?}");
}
