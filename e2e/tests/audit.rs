//! The audit log that a host's policy asks for.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_e2e::{ProgramRun, Remote, Sandbox, ServedShare, eventually, is_root_or_skip};
use serde_json::Value;

/// A name that would be a line of its own, with an escape and a byte that is not UTF-8.
const NAME: &[u8] = b"a\n{\"action\":\"received\",\"path\":\"forged\"}\n\x1b[2J\"\\\xff";
/// The same in the log.
const NAME_SHOWN: &str = "a\\n{\"action\":\"received\",\"path\":\"forged\"}\\n\\u{1b}[2J\"\\\\\\xff";

/// Sends the audit log of this account's workers to a file in the sandbox.
fn audit_to(sandbox: &Sandbox, home: &Path, log: &str) -> PathBuf {
    let (log, policy) = (sandbox.path(log), home.join(".config/haul"));
    fs::create_dir_all(&policy).unwrap();
    fs::write(policy.join("policy"), format!("audit = {}\n", log.display())).unwrap();
    log
}

/// The lines of a log: each is an object.
fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The line with this action and a path that ends so.
#[track_caller]
fn line<'l>(lines: &'l [Value], action: &str, path: &str) -> &'l Value {
    let is = |line: &&Value| line["action"] == action && line["path"].as_str().is_some_and(|p| p.ends_with(path));
    let found: Vec<_> = lines.iter().filter(is).collect();
    assert_eq!(found.len(), 1, "{action} {path}: {lines:#?}");
    found[0]
}

fn is_of(line: &Value, file: &Path) -> bool {
    let content = fs::read(file).unwrap();
    line["bytes"] == content.len() && line["blake3"] == blake3::hash(&content).to_hex().as_str()
}

/// A tree with a large file, a small one and one with a name that nobody likes.
fn tree(sandbox: &Sandbox) -> [PathBuf; 3] {
    let odd = sandbox.path("source").join(OsStr::from_bytes(NAME));
    let files = [sandbox.big_file("source/big", 3_000_000), sandbox.file("source/small", "small"), odd];
    fs::write(&files[2], "odd").unwrap();
    files
}

#[test]
fn each_file_of_a_push_and_a_pull_has_a_line() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let files = tree(&sandbox);
    let shown = ["source/big", "source/small", NAME_SHOWN];
    let log = audit_to(&sandbox, remote.home(), "pushed");
    let push = || remote.haul(&sandbox).args(["-r", "source"]).arg(remote.at(sandbox.path("there"))).run();
    push().succeeds();
    let said = lines(&log);
    assert_eq!(said.len(), 5, "{said:#?}");
    assert_eq!(line(&said, "made", "/there")["kind"], "directory");
    assert!(line(&said, "accepted", "/there")["ssh_from"].is_string());
    for (file, name) in files.iter().zip(["there/big", "there/small", NAME_SHOWN]) {
        let received = line(&said, "received", name);
        assert!(is_of(received, file), "{name}: {said:#?}");
        assert_eq!(received["seconds"].is_number(), name == "there/big", "{received}");
    }
    push().succeeds();
    let again = lines(&log).split_off(5);
    assert_eq!(again.iter().filter(|line| line["action"] == "unchanged").count(), 3, "{again:#?}");

    let log = audit_to(&sandbox, remote.home(), "pulled");
    remote.haul(&sandbox).arg("-r").arg(remote.at(sandbox.path("source"))).arg("back").run().succeeds();
    let said = lines(&log);
    for (file, name) in files.iter().zip(shown) {
        let sent = line(&said, "sent", name);
        assert!(is_of(sent, file), "{name}: {said:#?}");
        assert_eq!(sent["seconds"].is_number(), name == "source/big", "{sent}");
    }
    let at = |action: &str| said.iter().position(|line| line["action"] == action && line["bytes"] == 3_000_000);
    assert!(at("begun").is_some() && at("begun") < at("sent"), "{said:#?}");
}

/// A file that the client refuses is a failure in its server's logs, too.
#[test]
fn a_file_refused_by_the_client_has_failed_at_the_server() {
    let sandbox = Sandbox::new();
    for name in ["shared/dir/taken", "shared/dir/free", "back/taken"] {
        sandbox.file(name, name);
    }
    let log = sandbox.path("log");
    let server = ServedShare::start(&sandbox, &["--audit", log.to_str().unwrap(), "--once"]);
    sandbox.haul(["-r", &server.at("dir/."), "back"]).run().ends(1);
    eventually("it is logged", || server.logged("ended") == 1);
    let ended = &server.log("ended")[0];
    assert_eq!((&ended["failed"], &ended["complete"]), (&1.into(), &false.into()), "{ended}");
    sandbox.haul([&server.at("dir/free"), "again"]).run().succeeds();
    ProgramRun::of(server.running).succeeds();
    let said = lines(&log);
    assert_eq!(line(&said, "failed", "/taken")["reason"], "failed at the target", "{said:#?}");
    assert_eq!(said.iter().filter(|line| line["action"] == "sent").count(), 2, "{said:#?}");
}

/// Directories, links and removals have lines, too; a dry run has none.
#[test]
fn each_change_has_a_line() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source/dir/file", "file");
    fs::hard_link(sandbox.path("source/dir/file"), sandbox.path("source/dir/name")).unwrap();
    std::os::unix::fs::symlink("file", sandbox.path("source/dir/link")).unwrap();
    sandbox.file("there/source/old/tree/file", "old");
    sandbox.file("there/source/dir/link/file", "in the way");
    let log = audit_to(&sandbox, remote.home(), "log");
    let sync = |options: &[&str]| {
        let sync = sandbox.haul(["sync", "--hard-links", "--delete"]).args(remote.sshd().haul_args()).args(options);
        sync.arg("source").arg(remote.at(sandbox.path("there"))).run().succeeds();
    };
    sync(&["--dry-run"]);
    assert!(lines(&log).iter().all(|line| line["action"] == "accepted"), "{:#?}", lines(&log));
    sync(&[]);
    let said = lines(&log);
    for (action, path, kind) in [
        ("removed", "/source/old/tree/file", "file"),
        ("removed", "/source/old/tree", "directory"),
        ("removed", "/source/old", "directory"),
        ("removed", "/source/dir/link/file", "file"),
        ("replaced", "/source/dir/link", "symlink"),
        ("linked", if is_first(&said, "dir/file") { "/source/dir/name" } else { "/source/dir/file" }, "file"),
    ] {
        assert_eq!(line(&said, action, path)["kind"], kind, "{said:#?}");
    }
    let shared = Sandbox::new();
    shared.file("source/moved", "moved");
    let log = audit_to(&shared, &shared.home(), "log");
    shared.haul(["--remove-source-files", "source/moved", "target"]).run().succeeds();
    assert_eq!(line(&lines(&log), "removed", "/source/moved")["kind"], "file");
}

/// Whether this name of a file is the one that was received.
fn is_first(said: &[Value], name: &str) -> bool {
    said.iter()
        .any(|line| line["action"] == "received" && line["path"].as_str().is_some_and(|path| path.ends_with(name)))
}

#[test]
fn a_server_has_an_audit_log_of_its_own() {
    let sandbox = Sandbox::new();
    let files = tree(&sandbox);
    let log = sandbox.path("files.log");
    let server = ServedShare::start(&sandbox, &["--audit", log.to_str().unwrap()]);
    sandbox.haul(["-r", "source", &server.at("there")]).run().succeeds();
    server.end().succeeds();
    let said = lines(&log);
    for (file, name) in files.iter().zip(["there/big", "there/small", NAME_SHOWN]) {
        assert!(is_of(line(&said, "received", name), file), "{name}");
    }
    assert!(said.iter().all(|line| line["client"].as_str().unwrap().starts_with("127.0.0.1:")), "{said:#?}");
    sandbox.haul(["serve", "--audit", "files.log", "shared"]).run().ends(2).says(["--audit", "absolute path"]);
}

#[test]
fn a_served_worker_logs_the_client_and_refusals() {
    let sandbox = Sandbox::new();
    let files = tree(&sandbox);
    let log = audit_to(&sandbox, &sandbox.home(), "log");
    let server = ServedShare::start(&sandbox, &[]);
    // The client's own workers have no part in it.
    fs::create_dir(sandbox.path("client")).unwrap();
    let haul = |words: &[&str]| sandbox.haul(words).env("HOME", sandbox.path("client")).run();
    haul(&["-r", "source", &server.at("there")]).succeeds();
    haul(&["-r", &server.at("there"), "back"]).succeeds();
    assert_ne!(haul(&["source/small", &server.at("../\u{202e}out")]).status, Some(0));
    server.end().succeeds();
    let said = lines(&log);
    for (file, name) in files.iter().zip(["there/big", "there/small", NAME_SHOWN]) {
        assert!(is_of(line(&said, "received", name), file) && is_of(line(&said, "sent", name), file), "{name}");
    }
    let shared = sandbox.path("shared");
    assert!(said.iter().all(|line| line["path"].as_str().unwrap().starts_with(shared.to_str().unwrap())), "{said:#?}");
    assert!(said.iter().all(|line| line["client"].as_str().unwrap().starts_with("127.0.0.1:")), "{said:#?}");
    let reason = line(&said, "refused", "")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("\\u{202e}out") && !reason.contains('\u{202e}'), "{reason}");
}

/// A path that would be lines of either log, with a tab, escapes and quotes; and one as long as a path may be.
fn hostile_paths() -> [String; 3] {
    let line = "2026-01-01T00:00:00Z 192.0.2.1:9 x sent forged: 1 files";
    let object = r#"{"event":"ended","action":"received","path":"forged"}"#;
    let long = vec!["\n\u{1b}[2J\u{202e}".repeat(20); 14].join("/");
    [
        format!("a\n{line}\n\t\u{1b}]0;x\u{7}\u{2028}b"),
        format!("a\n{object}\r\n\",\"action\":\"received\",\"x\":\""),
        long,
    ]
}

#[test]
fn no_client_forges_a_line_of_an_audit_log_or_of_a_servers_log() {
    for is_json in [true, false] {
        let sandbox = Sandbox::new();
        sandbox.file("file", "content");
        sandbox.dir("shared");
        let (log, json) = (sandbox.path("files.log"), if is_json { &["--json"][..] } else { &[] });
        let words = ["serve", "--bind", "127.0.0.1", "--audit", log.to_str().unwrap()];
        let server = ServedShare::of(sandbox.haul(words).args(json).arg("shared"));
        let paths = hostile_paths();
        for (number, path) in paths.iter().enumerate() {
            let push = sandbox.haul(["file", &server.at(path)]).run();
            // The directories of the long path are not there: it is refused, like those that lead out.
            assert_eq!(push.status == Some(0), number < 2, "{}", push.account());
            assert_ne!(sandbox.haul(["file", &server.at(&format!("../{path}"))]).run().status, Some(0));
            assert_ne!(sandbox.haul([&server.at(&format!("missing{path}")), "back"]).run().status, Some(0));
        }
        let said = server.end().stderr;
        assert!(said.chars().all(|c| c == '\n' || !haul_proto::path::disturbs(c)), "{said:?}");
        let sessions = 3 * paths.len();
        assert_eq!(said.lines().count(), 2 * sessions, "{said}");
        for line in said.lines() {
            match is_json {
                true => {
                    let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
                    assert!(["connected", "ended"].iter().any(|event| line["event"] == *event), "{line}");
                    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
                }
                false => assert_eq!(line.split(' ').nth(1).unwrap().split(':').next(), Some("127.0.0.1"), "{line}"),
            }
        }
        let audited = lines(&log);
        assert!(audited.iter().all(|line| line["client"].as_str().unwrap().starts_with("127.0.0.1:")), "{audited:#?}");
        let of = |action: &str| audited.iter().filter(|line| line["action"] == action).collect::<Vec<_>>();
        let (received, refused) = (of("received"), of("refused"));
        assert_eq!((received.len(), refused.len()), (2, 1 + paths.len()), "{audited:#?}");
        let shared = sandbox.path("shared");
        let is_inside = |line: &&Value| line["path"].as_str().unwrap().starts_with(shared.to_str().unwrap());
        assert!(received.iter().all(is_inside) && audited.iter().all(|line| line["path"] != "forged"), "{audited:#?}");
    }
}

/// The account can set it before it starts a worker.
#[test]
fn no_ssh_connection_forges_a_line() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("file", "content");
    let program = haul_e2e::haul_binary();
    let script = "#!/bin/bash\nexport SSH_CONNECTION=\"$(cat connection)\"\nexec \"$HAUL\" \"$@\"\n";
    let far = sandbox.script("far", script);
    let odd = b"\xff\xfe 1 2 3".to_vec();
    let said = [
        &b"9\",\"action\":\"received\",\"path\":\"forged"[..],
        b"a\n{}\nb",
        b"\x1b[2J\t\xe2\x80\xae",
        &[b'9'; 100_000],
        &odd,
    ];
    for (number, said) in said.into_iter().enumerate() {
        let log = audit_to(&sandbox, &sandbox.home(), &format!("log{number}"));
        sandbox.file("connection", said);
        let target = format!("127.0.0.1:{}", sandbox.path(format!("there{number}")).display());
        let run =
            sandbox.haul(["--target-command", far.to_str().unwrap(), "file", &target]).env("HAUL", &program).run();
        let run = run.succeeds();
        let audited = lines(&log);
        let received: Vec<_> = audited.iter().filter(|line| line["action"] == "received").collect();
        assert!(received.len() == 1 && is_of(received[0], &file), "{audited:#?}\n{}", run.account());
        let is_short = |line: &Value| line["ssh_from"].as_str().is_none_or(|from| from.len() < 1000);
        assert!(audited.iter().all(is_short), "{number}: a line is long");
    }
}

#[test]
fn without_a_log_there_is_no_copy() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    sandbox.dir("log");
    for log in ["log", "absent/log"] {
        audit_to(&sandbox, &sandbox.home(), log);
        sandbox.haul(["source", "there"]).run().ends(1).says(["the audit log (", "cannot be opened"]);
        assert!(!sandbox.path("there").exists(), "{log}");
    }
}

#[test]
fn a_log_on_a_full_disk_ends_the_copy() {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let sandbox = Sandbox::new();
    for number in 0..400 {
        sandbox.file(format!("source/{number:0100}"), "content");
    }
    let mount = sandbox.tmpfs("disk", "size=16k");
    let log = audit_to(&sandbox, &sandbox.home(), "disk/log");
    let copy = |target: &str| -> ProgramRun { sandbox.haul(["-r", "source", target]).run() };
    let run = copy("some");
    assert!(run.status != Some(0) && run.stderr.contains("cannot be written"), "{}", run.account());
    assert!(fs::metadata(&log).unwrap().len() > 4096, "it was full at once");
    assert!(fs::read_dir(sandbox.path("some")).map_or(0, Iterator::count) < 400, "the job went on");
    // Not even the first line has room.
    copy("none").ends(1).says(["the audit log (", "cannot be written"]);
    assert!(!sandbox.path("none").exists());
    drop(mount);
}
