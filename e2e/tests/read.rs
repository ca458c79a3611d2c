//! `haul read`: files read over a session, by people and by programs.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use haul_e2e::{Haul, Remote, Sandbox, ServedShare, WorkerProgramProcess, contents, within};
use haul_proto::wire::file_session::{FileAnswer, FileOperation, FileSessionRequest, SessionRights};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;
use haul_proto::wire::samples;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(20);

/// A program's session.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    #[track_caller]
    fn start(haul: Haul<'_>, errors: &Path) -> Self {
        let mut command = haul.into_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(fs::File::create(errors).unwrap());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut session = Self { child, input, output };
        let ready = session.answer();
        assert_eq!(ready.map(|(line, _)| line), Some(json!({"answer": "ready"})), "{}", said(errors));
        session
    }

    fn answer(&mut self) -> Option<(Value, Vec<u8>)> {
        let mut line = String::new();
        (self.output.read_line(&mut line).unwrap() > 0).then(|| {
            let line: Value = serde_json::from_str(&line).unwrap();
            let follows = if line["answer"] == "data" { line["bytes"].as_u64().unwrap_or(0) } else { 0 };
            let mut bytes = vec![0; follows.try_into().unwrap()];
            self.output.read_exact(&mut bytes).unwrap();
            (line, bytes)
        })
    }

    fn ask(&mut self, request: &Value) -> Option<(Value, Vec<u8>)> {
        let input = self.input.as_mut().unwrap();
        // A session that is over says why.
        let _ = input.write_all(format!("{request}\n").as_bytes());
        self.answer()
    }

    #[track_caller]
    fn open(&mut self, path: &str) -> Value {
        self.ask(&json!({"request": "open", "path": path})).unwrap().0
    }

    fn read(&mut self, file: &Value, offset: u64, length: u64) -> Option<(Value, Vec<u8>)> {
        self.ask(&json!({"request": "read", "file": file["file"], "offset": offset, "length": length}))
    }

    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        let mut status = None;
        within(LIMIT, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(errors: &Path) -> String {
    String::from_utf8(contents(errors)).unwrap()
}

#[test]
fn files_and_parts_of_them_are_printed_from_everywhere() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let file = sandbox.big_file("shared/file", 9_000_000);
    let server = ServedShare::start(&sandbox, &["--read-only"]);
    let whole = contents(&file);
    let ssh = remote.sshd().haul_args();
    let there = remote.at(&file).into_string().unwrap();
    for place in ["shared/file", &server.at("file"), &there] {
        for (options, part) in [
            (&[][..], &whole[..]),
            (&["--range", "5m+64k"], &whole[5 << 20..][..64 << 10]),
            (&["--range", "8999999+1k"], &whole[8_999_999..]),
            (&["--range", "1g+1"], b""),
        ] {
            let mut command = sandbox.haul(["read"]).args(&ssh).args(options).arg(place).into_command();
            let output = command.output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && output.stdout == part, "{place} {options:?}: {errors}");
        }
    }
    sandbox.haul(["read", "shared/missing"]).run().ends(1).says(["shared/missing: No such file"]);
    sandbox.haul(["read", "shared"]).run().ends(1).says(["shared: is a directory"]);
    sandbox.haul(["read", "--range", "5", "shared/file"]).run().ends(2).says(["--range 5: must be two sizes"]);
    server.end().succeeds();
}

/// A session with the account on a host.
fn session_with(sandbox: &Sandbox, remote: &Remote) -> Session {
    let haul = sandbox.haul(["read", "--session"]).args(remote.sshd().haul_args()).arg(remote.at(""));
    Session::start(haul, &sandbox.path("errors"))
}

#[test]
fn a_session_answers_until_its_input_ends() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let file = sandbox.file("file", "0123456789");
    let mut session = session_with(&sandbox, &remote);
    let opened = session.open(file.to_str().unwrap());
    assert_eq!((&opened["answer"], &opened["size"]), (&json!("opened"), &json!(10)));
    assert_eq!(session.read(&opened, 8, 9).unwrap().1, b"89");
    assert_eq!(session.open("/missing")["failure"], "gone");
    assert_eq!(session.open("/")["failure"], "directory");
    assert_eq!(session.read(&opened, 0, 3).unwrap().1, b"012", "a failure does not end it");
    std::thread::sleep(Duration::from_millis(20));
    fs::write(&file, "abcdefghij").unwrap();
    let (changed, bytes) = session.read(&opened, 0, 3).unwrap();
    assert_eq!((&changed["failure"], &bytes[..]), (&json!("changed"), &b""[..]));
    let again = session.open(file.to_str().unwrap());
    assert_eq!(session.read(&again, 0, 3).unwrap().1, b"abc");
    assert_eq!(session.end(), Some(0));
    remote.is_left_clean();
}

#[test]
fn a_session_with_a_server_reads_inside_its_directory_alone() {
    let sandbox = Sandbox::new();
    sandbox.file("outside", "secret");
    sandbox.file("shared/dir/file", "shared");
    symlink("../outside", sandbox.path("shared/link")).unwrap();
    symlink("dir", sandbox.path("shared/within")).unwrap();
    let errors = sandbox.path("errors");
    let server = ServedShare::start(&sandbox, &["--read-only"]);
    let mut session = Session::start(sandbox.haul(["read", "--session", &server.line]), &errors);
    for path in ["../outside", "dir/../../outside", "/etc/passwd", "link", "within/file"] {
        assert_eq!(session.open(path)["failure"], "denied", "{path}");
    }
    let opened = session.open("dir/file");
    assert_eq!(session.read(&opened, 0, 100).unwrap().1, b"shared");
    assert_eq!(session.end(), Some(0));
    server.end().succeeds();

    let server = ServedShare::start(&sandbox, &["--write-only"]);
    sandbox.haul(["read", &server.at("dir/file")]).run().ends(2).says(["reading is forbidden"]);
    server.end().succeeds();

    let server = ServedShare::start(&sandbox, &["--read-only", "--xfrrate", "1m"]);
    sandbox.big_file("shared/big", 2_500_000);
    let run = sandbox.haul(["read", &server.at("big")]).run().succeeds();
    assert!(run.elapsed > Duration::from_secs(1), "the server's rate holds: {:?}", run.elapsed);
    server.end().succeeds();
}

#[test]
fn a_lost_worker_ends_the_session_with_the_reason() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let file = sandbox.file("file", "0123456789");
    let mut session = session_with(&sandbox, &remote);
    let opened = session.open(file.to_str().unwrap());
    let worker = remote.workers()[0];
    kill_process(Pid::from_raw(worker.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    assert_eq!(session.read(&opened, 0, 3), None);
    assert_eq!(session.end(), Some(4));
    assert!(said(&sandbox.path("errors")).contains("lost the connection to"));
}

#[test]
fn a_session_lists_and_changes_what_it_was_started_for() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("dir/file", "0123456789");
    let path = |below: &str| sandbox.path("dir").join(below).to_str().unwrap().to_owned();
    let mut session = session_with(&sandbox, &remote);
    let listed = session.ask(&json!({"request": "list", "path": path("")})).unwrap().0;
    assert_eq!((&listed["listing"], &listed["entries"][0]["name"]), (&Value::Null, &json!("file")));
    let found = session.ask(&json!({"request": "stat", "path": path("file"), "follows": true})).unwrap().0;
    assert_eq!((&found["answer"], &found["kind"], &found["bytes"]), (&json!("found"), &json!("file"), &json!(10)));
    let refused = |answer: &Value| assert_eq!(answer["failure"], "denied", "{answer}");
    refused(&session.ask(&json!({"request": "mkdir", "path": path("new"), "parents": false})).unwrap().0);
    refused(&session.ask(&json!({"request": "remove", "path": path("file"), "recursive": false})).unwrap().0);
    assert_eq!(session.end(), Some(0));
    let haul = sandbox.haul(["read", "--session", "--changes"]).args(remote.sshd().haul_args()).arg(remote.at(""));
    let mut session = Session::start(haul, &sandbox.path("errors"));
    let made = session.ask(&json!({"request": "mkdir", "path": path("new"), "parents": false})).unwrap().0;
    assert_eq!(made, json!({"answer": "made"}));
    let removed = session.ask(&json!({"request": "remove", "path": path(""), "recursive": true})).unwrap().0;
    assert_eq!(removed, json!({"answer": "removed", "entries": 3, "failed": 0, "text": null}));
    let worker = remote.workers()[0];
    kill_process(Pid::from_raw(worker.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    assert_eq!(session.ask(&json!({"request": "list", "path": path("")})), None);
    assert_eq!(session.end(), Some(4));
    assert!(said(&sandbox.path("errors")).contains("lost the connection to"));
}

#[test]
fn a_worker_of_a_session_is_confined() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let mut session = session_with(&sandbox, &remote);
    session.open(sandbox.file("file", "x").to_str().unwrap());
    let threads = Path::new("/proc").join(remote.workers()[0].to_string()).join("task");
    let status =
        fs::read_dir(threads).unwrap().map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
    let of_files = status.filter(|status| status.starts_with("Name:\thaul-files\n")).collect::<Vec<_>>();
    let [of_files] = &of_files[..] else { panic!("{of_files:?}") };
    assert!(of_files.contains("\nSeccomp:\t2\n"), "{of_files}");
    assert_eq!(session.end(), Some(0));
}

#[test]
fn a_host_records_what_a_session_opens() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let file = sandbox.file("file", "0123456789");
    let (log, policy) = (sandbox.path("log"), remote.home().join(".config/haul"));
    fs::create_dir_all(&policy).unwrap();
    fs::write(policy.join("policy"), format!("audit = {}\n", log.display())).unwrap();
    sandbox.haul(["read"]).args(remote.sshd().haul_args()).arg(remote.at(&file)).run().succeeds();
    let lines: Vec<Value> = said(&log).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&line["action"], &line["path"]), (&json!("begun"), &json!(file.to_str().unwrap())));
    assert_eq!(line["bytes"], 10);
}

#[test]
fn a_session_and_a_copy_exclude_each_other() {
    let sandbox = Sandbox::new();
    let session =
        || ControllerMessage::FileSession(FileSessionRequest { silence_ms: 13_000, rights: SessionRights::Read });
    let close = || ControllerMessage::FileOperation(FileOperation::Close { file: 1 });
    let source = || ControllerMessage::Source(samples::source_request());
    for (messages, text) in [
        (vec![close()], "file operation without a file session"),
        (vec![session(), source()], "request after the start"),
        (vec![session(), session()], "request after the start"),
        (vec![source(), session()], "file session during a copy"),
        (vec![session(), ControllerMessage::Start { skip: None }], "start before a request"),
    ] {
        let mut worker = WorkerProgramProcess::start(&sandbox);
        messages.iter().for_each(|message| worker.tell(message));
        let fault = worker.wait_for(|message| match message {
            WorkerMessage::Fatal { text, .. } => Some(text),
            WorkerMessage::FileAnswer(answer) => {
                assert_eq!(answer, FileAnswer::Ready);
                None
            }
            _ => None,
        });
        assert!(fault.as_ref().is_some_and(|fault| fault.contains(text)), "{text}: {fault:?}");
    }
}
