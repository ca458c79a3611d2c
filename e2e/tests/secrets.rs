//! Confidential data: the session's secret; and names that could disturb a terminal.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_e2e::{
    ProgramRun, Running, Sandbox, ServedShare, contents, eventually, give_to_user, haul_binary, hidden_or_partial,
    shell, user,
};
use haul_lab::descendants;
use haul_proto::wire::control_channel::{ControlChannel, HEADER_LEN, decode_header};
use haul_proto::wire::request::ControllerMessage;

/// The secret in a controller's messages to a worker, once the Request is complete.
fn secret_of(told: &[u8]) -> Option<[u8; 32]> {
    let mut rest = told;
    loop {
        let (header, behind) = rest.split_first_chunk::<HEADER_LEN>()?;
        let (channel, length) = decode_header(*header).expect("a frame of the link");
        let (content, behind) = behind.split_at_checked(length)?;
        rest = behind;
        // A beat is empty.
        if channel != ControlChannel::Controller || content.is_empty() {
            continue;
        }
        match ControllerMessage::decode(content).expect("a message of the controller") {
            ControllerMessage::Target(request) => return Some(request.settings.secret),
            ControllerMessage::Source(request) => return Some(request.settings.secret),
            _ => {}
        }
    }
}

/// Searchable forms of the secret: its bytes, in hexadecimal, and in base64 without the characters shared with
/// neighbours.
struct Traces([Vec<u8>; 4]);

impl Traces {
    fn of(secret: &[u8; 32]) -> Self {
        let lower: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Self([secret.to_vec(), lower.to_uppercase().into(), lower.into(), base64(&secret[..30])])
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|trace| bytes.windows(trace.len()).any(|window| window == trace))
    }
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let number = three.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|shift| DIGITS[(number >> shift) as usize % 64])
    };
    bytes.chunks_exact(3).flat_map(group).collect()
}

/// Arguments and environments of haul and of all that it started.
fn told_to_processes(running: &Running) -> Vec<u8> {
    let mut pids = descendants(running.id());
    pids.push(running.id());
    let files = pids.iter().flat_map(|pid| ["cmdline", "environ"].map(|file| format!("/proc/{pid}/{file}")));
    files.flat_map(|file| fs::read(file).unwrap_or_default()).collect()
}

/// Every file below a directory, but `apart`.
fn files_below(directory: &Path, apart: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = entries.flat_map(|path| if path.is_dir() { files_below(&path, apart) } else { vec![path] });
    below.filter(|path| path != apart).collect()
}

#[test]
fn a_one_time_secret_leaves_the_arguments() {
    let sandbox = Sandbox::new();
    sandbox.big_file("file", 3_000_000);
    let server = ServedShare::start(&sandbox, &[]);
    let secret = server.line.split('#').nth(1).expect("a secret behind #").trim().to_owned();
    for words in [vec!["file".to_owned(), server.at("there")], vec![server.at("there"), "back".to_owned()]] {
        let connected = server.logged("connected");
        let running = sandbox.haul(["--xfrrate", "1m"]).args(&words).start();
        eventually("the copy runs", || server.logged("connected") > connected);
        let seen = told_to_processes(&running);
        let has = |text: &str| seen.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has("haul://") && has(&"x".repeat(secret.len())), "the arguments are not those");
        assert!(!has(&secret), "{}", String::from_utf8_lossy(&seen));
        ProgramRun::of(running).succeeds();
    }
    server.end().succeeds();
}

#[test]
fn the_secret_is_in_no_argument_environment_file_or_output() {
    let sandbox = Sandbox::new();
    let told = sandbox.path("told");
    let script = format!("#!/bin/sh\ntee '{}' | '{}' worker\n", told.display(), haul_binary().display());
    let far = sandbox.script("far", &script);
    sandbox.big_file("source/big", 3_000_000);
    // Slow enough to be looked at while it runs.
    let arguments = ["--json", "-v", "--xfrrate", "1m", "-r", "source", "far:target"];
    let haul = || sandbox.haul(["--target-command"]).arg(&far).args(arguments);
    let running = haul().start();
    let (mut secret, mut seen) = (None, Vec::new());
    while fs::read_dir(sandbox.path("target")).into_iter().flatten().count() == 0 && !ended(&running) {
        seen.extend(told_to_processes(&running));
    }
    for _ in 0..20 {
        seen.extend(told_to_processes(&running));
        secret = secret.or_else(|| secret_of(&contents(&told)));
    }
    let begun = files_below(&sandbox.path(""), &told);
    seen.extend(begun.iter().flat_map(|file| fs::read(file).unwrap_or_default()));
    assert!(!ended(&running), "it was over before it was looked at");
    let run = ProgramRun::of(running).succeeds();
    let secret = secret.unwrap_or_else(|| panic!("the controller told no secret\n{}", run.account()));
    let traces = Traces::of(&secret);
    // The worker got the secret, and the search finds it.
    assert!(traces.are_in(&contents(&told)) && seen.windows(5).any(|window| window == b"HOME="));
    assert!(traces.are_in(format!("K={}", secret.map(|byte| format!("{byte:02x}")).concat()).as_bytes()));
    assert!(!traces.are_in(&seen), "it is in an argument, an environment or a file");
    assert!(!traces.are_in(run.account().as_bytes()), "it was said");
    for file in files_below(&sandbox.path(""), &told) {
        assert!(!traces.are_in(&fs::read(&file).unwrap_or_default()), "it was left in {}", file.display());
    }
    fs::remove_dir_all(sandbox.path("target")).expect("it is there");
    haul().run().succeeds();
    assert_ne!(secret_of(&contents(&told)), Some(secret), "every run has its own");
}

fn ended(running: &Running) -> bool {
    !Path::new(&format!("/proc/{}/exe", running.id())).exists()
}

/// A name that would clear the screen, ring, go on in another line or turn the text around, and is no UTF-8.
const HOSTILE: &[u8] = b"\x1b[2J\x07\x1b]0;title\x07\xc2\x9b31m\r\nhaul: all is well\xe2\x80\xae\x7f\xff";

/// Characters that could disturb a terminal, except line breaks: their number is checked.
fn disturbs(text: &str) -> bool {
    text.contains(['\x1b', '\x07', '\r', '\u{9b}', '\u{202e}', '\x7f']) || text.contains("\nhaul: all is well")
}

#[test]
fn messages_about_a_hostile_name_do_not_disturb_a_terminal() {
    let name = Path::new(std::ffi::OsStr::from_bytes(HOSTILE));
    let sandbox = Sandbox::new();
    let odd = |root: &str, kind: &str| sandbox.path(root).join(kind).join(name);
    for kind in ["good", "refused"] {
        sandbox.file(odd("source", kind), "content");
    }
    haul_e2e::fifo(&sandbox.dir("source/left out").join(name));
    let ways: [&[&str]; 7] =
        [&[], &["-v"], &["--quiet"], &["--progress=1"], &["--progress=1", "-v"], &["--json"], &["--checksums", "-"]];
    for options in ways {
        let _ = fs::remove_dir_all(sandbox.path("target"));
        sandbox.file(odd("target/source", "refused"), "in the way");
        let run = sandbox.haul(options).args(["-r", "source", "target"]).run().ends(1);
        let stdout = if options == ["--checksums", "-"] { "" } else { &run.stdout };
        assert!(!disturbs(stdout) && !disturbs(&run.stderr), "{options:?}\n{}", run.account());
        assert!(run.stderr.contains("\\u{1b}[2J\\u{7}"), "it was not named\n{}", run.account());
        assert_eq!(contents(&odd("target/source", "good")), b"content");
    }
    // As sources and targets, and as names of missing files.
    let missing = sandbox.path("source").join(name);
    let run = sandbox.haul(["-v"]).arg(&missing).arg("target").run();
    assert!(run.status != Some(0) && !disturbs(&run.stderr), "{}", run.account());
    let run = sandbox.haul(["-v"]).arg(odd("source", "good")).arg(sandbox.path("none").join(name).join(name)).run();
    assert!(run.status != Some(0) && !disturbs(&run.stderr), "{}", run.account());
}

#[test]
fn a_terminal_is_not_disturbed_by_a_title_or_by_checksums() {
    let name = Path::new(std::ffi::OsStr::from_bytes(b"\x1b]0;title\x07\xc2\x9b31m"));
    let sandbox = Sandbox::new();
    let source = sandbox.file(Path::new("source").join(name), "content");
    sandbox.dir("target");
    let quoted = format!("$'{}'", source.as_os_str().as_bytes().escape_ascii());
    let script = format!("#!/bin/bash\nexec '{}' --checksums - {quoted} target\n", haul_binary().display());
    let script = sandbox.script("copy", &script);
    let run = shell(&sandbox, &format!("TERM=xterm script -qec {} /dev/null", script.display())).run().succeeds();
    assert!(run.stdout.contains("every byte verified"), "{}", run.account());
    assert!(run.stdout.contains("\\u{1b}]0;title"), "it is not among the checksums\n{}", run.account());
    // The bar itself draws with escapes, but not with these.
    assert!(!run.stdout.contains("\x1b]0;title") && !run.stdout.contains('\u{9b}'), "{}", run.account());
}

/// Whether `user()` can read this file of a process.
fn reads_as_user(path: &str) -> bool {
    let id = user().to_string();
    let mut cat = Command::new("setpriv");
    cat.args(["--reuid", &id, "--regid", &id, "--clear-groups", "cat", path]);
    cat.output().unwrap().status.success()
}

#[test]
fn no_other_process_of_the_same_user_reads_haul_s_memory() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: another process of the same user needs root to be started");
        return;
    }
    let sandbox = Sandbox::new();
    give_to_user(&sandbox.dir("place"));
    sandbox.big_file("tree/big", 20_000_000);
    let copy = sandbox.haul_of_user(["--xfrrate", "100k", "tree/big", "place/big"]).start();
    let is_haul = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "haul");
    let hauls = || -> Vec<u32> { descendants(copy.id()).into_iter().chain([copy.id()]).filter(is_haul).collect() };
    // A process protects itself right after its start, before it gets a secret.
    eventually("data arrives", || hidden_or_partial(&sandbox.path("place"), &["big"], 0).is_some());
    let pids = hauls();
    assert!(pids.len() >= 2, "a controller and a worker run: {pids:?}");
    for pid in pids {
        for secret in ["environ", "maps", "mem", "auxv"] {
            assert!(!reads_as_user(&format!("/proc/{pid}/{secret}")), "{pid}: {secret}");
        }
    }
    // The same check for a process without protection.
    let mut sleep = Command::new("setpriv");
    let id = user().to_string();
    let mut sleep = sleep.args(["--reuid", &id, "--regid", &id, "--clear-groups", "sleep", "60"]).spawn().unwrap();
    eventually("it sleeps", || {
        fs::read_to_string(format!("/proc/{}/comm", sleep.id())).is_ok_and(|name| name.trim() == "sleep")
    });
    assert!(reads_as_user(&format!("/proc/{}/environ", sleep.id())));
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    copy.signal(rustix::process::Signal::TERM);
    ProgramRun::of(copy);
}

#[test]
fn no_message_shows_a_one_time_secret() {
    let secret = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let sandbox = Sandbox::new();
    sandbox.file("a", "1");
    let line = format!("haul://127.0.0.1:9/#{secret}");
    let (upper, slip) = (line.replace("haul", "HAUL"), format!("x{line}"));
    for words in [
        &["--explain", &line, "a", "b"][..],
        &[&line],
        &["survey", "--to", &line, "a"],
        &["serve", &line],
        &["report", &line],
        &["job", "plan", "--dir", "job", "a", &line],
        &["help", &line],
        &["--infiles", &line, "b"],
        &["a", &upper],
        &["a", &slip],
        &[&slip, "b"],
    ] {
        let run = sandbox.haul(words.iter().copied()).run();
        assert_ne!(run.status, Some(0), "{}", run.account());
        assert!(!run.stdout.contains(&secret[..8]) && !run.stderr.contains(&secret[..8]), "{}", run.account());
    }
}
