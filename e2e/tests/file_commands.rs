//! `haul ls`, `haul du`, `haul mkdir` and `haul rm`, here, over ssh and at `haul serve`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use haul_e2e::{Remote, Sandbox, ServedShare, eventually};
use serde_json::{Value, json};

/// The sandbox's directory `shared` by its local path, over ssh, and at a server, with options to get there.
fn places(sandbox: &Sandbox, remote: &Remote, server: &ServedShare) -> Vec<(Vec<String>, OsString)> {
    let there = remote.at(sandbox.path("shared"));
    vec![(Vec::new(), "shared".into()), (remote.sshd().haul_args(), there), (Vec::new(), server.at(".").into())]
}

/// `place` with a path below.
fn below(place: &OsString, path: &str) -> OsString {
    let place = place.to_str().unwrap();
    // Below a server, paths begin behind the colon.
    place.strip_suffix(":.").map_or_else(|| format!("{place}/{path}"), |line| format!("{line}:{path}")).into()
}

#[test]
fn directories_are_listed_everywhere() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("shared/b.dat", "12345");
    sandbox.file("shared/a\x1b[31m", "");
    sandbox.file("shared/.hidden", "");
    sandbox.file("shared/dir/file", "x");
    symlink("dir", sandbox.path("shared/link")).unwrap();
    fs::set_permissions(sandbox.path("shared/b.dat"), fs::Permissions::from_mode(0o4750)).unwrap();
    let server = ServedShare::start(&sandbox, &["--read-only"]);
    for (options, place) in places(&sandbox, &remote, &server) {
        let ls =
            |letters: &[&str], place: &OsString| sandbox.haul(["ls"]).args(letters).args(&options).arg(place).run();
        assert_eq!(ls(&[], &place).succeeds().stdout, "a\\u{1b}[31m\nb.dat\ndir\nlink\n");
        assert_eq!(ls(&["-a"], &place).succeeds().stdout, ".hidden\na\\u{1b}[31m\nb.dat\ndir\nlink\n");
        let long = ls(&["-la"], &place).succeeds().stdout;
        let row = |name: &str| long.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
        assert!(row("b.dat").starts_with("-rwsr-x---  ") && row("b.dat").contains(" 5  20"), "{long}");
        assert!(row("link").starts_with("lrwxrwxrwx  ") && row("link").ends_with("  link -> dir"), "{long}");
        assert!(row("  dir").starts_with('d') && row(".hidden").starts_with('-'), "{long}");
        assert_eq!(ls(&[], &below(&place, "dir/file")).succeeds().stdout.lines().count(), 1);
        ls(&[], &below(&place, "missing")).ends(1).says(["missing: No such file or directory"]);
        let lines = ls(&["--json"], &place).succeeds().events();
        let file = lines.iter().find(|line| line["path"].as_str().unwrap().ends_with("b.dat")).unwrap();
        assert_eq!((&file["kind"], &file["bytes"], &file["mode"]), (&json!("file"), &json!(5), &json!("4750")));
        assert!(file["modified_ns"].as_i64().unwrap() > 1_000_000_000_000_000_000);
        assert!(lines.iter().any(|line| line["points_to"] == "dir"), "{lines:?}");
    }
    let matched = sandbox.haul(["ls", &server.at("*.dat"), &server.at("dir")]).run().succeeds();
    assert!(matched.stdout.starts_with("./b.dat\n") || matched.stdout.starts_with("b.dat\n"), "{}", matched.stdout);
    assert!(matched.stdout.contains("dir:\nfile\n"), "{}", matched.stdout);
    server.end().succeeds();
    let server = ServedShare::start(&sandbox, &["--write-only"]);
    for command in ["ls", "du"] {
        sandbox.haul([command, &server.line]).run().ends(2).says(["reading is forbidden"]);
    }
    server.end().succeeds();
}

#[test]
fn a_large_directory_is_sorted_in_pieces() {
    let sandbox = Sandbox::new();
    sandbox.dir("large");
    (0..120_000).for_each(|i| drop(fs::File::create(sandbox.path(format!("large/{i:06}"))).unwrap()));
    let run = sandbox.haul(["ls", "large"]).run().succeeds().says(["sorted in pieces"]);
    let names: Vec<_> = run.stdout.lines().collect();
    let falls = names.windows(2).filter(|pair| pair[0] > pair[1]).count();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert!(sorted.len() == 120_000 && falls <= 1, "{} names, {falls} falls", sorted.len());
}

#[test]
fn directories_are_made_and_removed_everywhere() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let server = ServedShare::start(&sandbox, &[]);
    let shared = |path: &str| sandbox.path(format!("shared/{path}"));
    sandbox.file("kept/file", "kept");
    for (options, place) in places(&sandbox, &remote, &server) {
        let run = |words: &[&str], path: &str| {
            sandbox.haul(words.iter().copied()).args(&options).arg(below(&place, path)).run()
        };
        run(&["mkdir"], "new/dir").ends(1).says(["No such file or directory"]);
        run(&["mkdir", "-p"], "new/dir").succeeds();
        run(&["mkdir", "-p"], "new/dir").succeeds();
        run(&["mkdir"], "new/dir").ends(1).says(["File exists"]);
        symlink("../../../kept", shared("new/dir/link")).unwrap();
        fs::write(shared("new/dir/file"), "x").unwrap();
        run(&["rm"], "new").ends(1).says(["is a directory", "haul rm -r"]);
        run(&["rm"], "new/dir/link").succeeds();
        symlink("../../../kept", shared("new/dir/link")).unwrap();
        let events = run(&["rm", "-r", "--json"], "new").succeeds().events();
        assert_eq!((&events[0]["event"], &events[0]["entries"]), (&json!("deleted"), &json!(4)));
        assert!(!shared("new").exists() && sandbox.path("kept/file").exists());
        run(&["rm", "-r"], "new").ends(1).says(["No such file or directory"]);
        run(&["rm", "-rf"], "new").succeeds();
    }
    server.end().succeeds();
}

#[test]
fn what_a_session_needs_is_never_removed() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("file", "kept");
    fs::write(remote.home().join("file"), "kept").unwrap();
    let above = remote.home().parent().unwrap().to_owned();
    for path in ["/", ".", "..", "", "~", "../", "./", remote.home().to_str().unwrap(), above.to_str().unwrap()] {
        let run = sandbox.haul(["rm", "-r"]).args(remote.sshd().haul_args()).arg(remote.at(path)).run();
        run.ends(1).says(["is never removed"]);
    }
    for path in ["/", ".", "..", sandbox.path("").to_str().unwrap(), sandbox.home().to_str().unwrap()] {
        sandbox.haul(["rm", "-r", path]).run().ends(1).says(["is never removed"]);
    }
    assert!(sandbox.path("file").exists() && remote.home().join("file").exists());
}

#[test]
fn a_server_permits_changes_as_its_access_does() {
    let sandbox = Sandbox::new();
    sandbox.file("shared/file", "kept");
    for (access, makes, removes) in [("--read-only", false, false), ("--write-only", true, false)] {
        let server = ServedShare::start(&sandbox, &[access]);
        let made = sandbox.haul(["mkdir", "-p", &server.at("new/dir")]).run();
        if makes {
            made.succeeds()
        } else {
            made.ends(2).says(["writing is forbidden"])
        };
        assert_eq!(sandbox.path("shared/new/dir").exists(), makes, "{access}");
        let removed = sandbox.haul(["rm", &server.at("file")]).run();
        match (removes, access) {
            (true, _) => removed.succeeds(),
            (_, "--read-only") => removed.ends(2).says(["writing is forbidden"]),
            _ => removed.ends(1).says(["deleting is forbidden"]),
        };
        assert!(sandbox.path("shared/file").exists());
        server.end().succeeds();
    }
    let server = ServedShare::start(&sandbox, &[]);
    sandbox.file("outside", "kept");
    symlink("..", sandbox.path("shared/up")).unwrap();
    for path in ["../outside", "up/outside", "/etc"] {
        sandbox.haul(["rm", "-r", &server.at(path)]).run().ends(1);
        sandbox.haul(["mkdir", "-p", &server.at(&format!("{path}/new"))]).run().ends(1);
    }
    sandbox.haul(["rm", "-r", &server.at("up")]).run().succeeds();
    sandbox.haul(["mkdir", &server.at("made")]).run().succeeds();
    for (did, path) in [("removed", "./up"), ("made", "./made")] {
        let is_logged = || server.log("ended").iter().any(|end| end["direction"] == did && end["path"] == path);
        eventually("the line about the change", is_logged);
    }
    sandbox.haul(["rm", "-r", &server.at(".")]).run().ends(1).says(["is never removed"]);
    assert!(sandbox.path("outside").exists());
    server.end().succeeds();
}

#[test]
fn a_sum_counts_a_file_with_several_names_once() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("shared/big", 1_000_000);
    fs::hard_link(sandbox.path("shared/big"), sandbox.path("shared/again")).unwrap();
    sandbox.file("shared/dir/small", "12345");
    symlink("/", sandbox.path("shared/dir/link")).unwrap();
    let server = ServedShare::start(&sandbox, &["--read-only"]);
    for (options, place) in places(&sandbox, &remote, &server) {
        let du = |words: &[&str]| sandbox.haul(["du"]).args(words).args(&options).arg(&place).run().succeeds();
        let sum = du(&["--json"]).events().remove(0);
        assert_eq!((&sum["entries"], &sum["bytes"]), (&json!(6), &json!(1_000_005)), "{sum}");
        assert!(sum["bytes_on_disk"].as_u64().unwrap() >= 1_000_000 && sum["repeats_links"] == Value::Bool(false));
        assert!(du(&["-sh"]).stdout.trim_start().starts_with("1.00 MB         6 entries  "), "{}", du(&[]).stdout);
    }
    server.end().succeeds();
}

#[test]
fn a_removal_names_what_stays() {
    let sandbox = Sandbox::new();
    if rustix::process::geteuid().is_root() {
        sandbox.file("tree/kept/file", "x");
        sandbox.file("tree/gone", "x");
        let run = sandbox.haul_of_user(["rm", "-r", "tree"]).run();
        run.ends(1).says(["tree/kept/file: Permission denied"]);
        assert!(sandbox.path("tree/kept/file").exists());
    }
}

#[test]
fn shells_complete_paths_on_hosts() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("shared/run 7/file", "");
    sandbox.file("shared/run8", "");
    sandbox.file("shared/other", "");
    sandbox.file("shared/line\nbreak", "");
    sandbox.file("shared/.run9", "");
    let words = remote.sshd().haul_args();
    let of = |option: &str| {
        let values = words.chunks(2).filter(|pair| pair[0] == option).map(|pair| format!("{:?}", pair[1]));
        values.collect::<Vec<_>>().join(", ")
    };
    let [port, key, options] = ["--ssh-port", "--idfile", "--ssh-option"].map(of);
    let lines = format!("ssh-port = {}\nidfile = {key}\nssh-option = [{options}]\n", port.trim_matches('"'));
    let configured = sandbox.file("home/.config/haul/config.toml", lines);
    fs::set_permissions(configured, fs::Permissions::from_mode(0o600)).unwrap();
    let prefix = remote.at(sandbox.path("shared")).into_string().unwrap();
    let complete = |typed: &str| sandbox.haul(["completions", "paths", typed]).run().succeeds().stdout;
    let offered: Vec<_> = complete(&format!("{prefix}/r")).lines().map(str::to_owned).collect();
    let expected: std::collections::BTreeSet<_> = [format!("{prefix}/run 7/"), format!("{prefix}/run8")].into();
    assert_eq!(offered.into_iter().collect::<std::collections::BTreeSet<_>>(), expected);
    assert_eq!(complete(&format!("{prefix}/.")), format!("{prefix}/.run9\n"));
    assert_eq!(complete(&format!("{prefix}/line")), "");
    assert_eq!(complete(&format!("{prefix}/missing/x")), "");
    assert_eq!(complete("nohost.invalid:/x"), "");
    assert_eq!(complete("local/x"), "");
}
