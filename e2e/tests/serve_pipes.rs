//! `haul serve -` and `haul serve --pipe`: standard input, standard output and programs, without ssh at either end.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use haul_e2e::{ProgramRun, Sandbox, ServedShare, eventually, pid, shell};
use haul_lab::descendants;
use rustix::process::{Signal, kill_process};

/// Starts `haul serve` in a script that connects its standard input or output. Its line is on standard error.
fn serve_standard(sandbox: &Sandbox, script: &str) -> ServedShare {
    let running = shell(sandbox, script).start();
    eventually("it listens", || running.stderr_so_far().contains('\n'));
    let line = running.stderr_so_far().lines().next().unwrap_or_default().to_owned();
    assert!(line.starts_with("haul://") && line.ends_with(":-"), "{line}");
    ServedShare { running, line }
}

fn serve_program(sandbox: &Sandbox, options: &[&str], command: &str) -> ServedShare {
    let serve = sandbox.haul(["serve", "--bind", "127.0.0.1", "--json"]).args(options);
    ServedShare::of(serve.args(["--pipe", command]))
}

#[test]
fn received_data_appears_on_standard_output() {
    let sandbox = Sandbox::new();
    let sent = sandbox.big_file("sent", 9_000_001);
    let server = serve_standard(&sandbox, r#"exec "$0" serve --bind 127.0.0.1 - > out < /dev/null"#);
    sandbox.haul(["sent", &server.line]).run().succeeds().says(["1 file"]);
    ProgramRun::of(server.running).succeeds();
    assert!(fs::read(sent).unwrap() == fs::read(sandbox.path("out")).unwrap());
}

#[test]
fn standard_input_is_sent_to_its_only_client() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 5_000_000);
    for script in [
        r#"cat source | "$0" serve --bind 127.0.0.1 - --read-only"#,
        r#"exec "$0" serve --bind 127.0.0.1 - --read-only < source"#,
    ] {
        let server = serve_standard(&sandbox, script);
        // The wrong direction, and no path: nothing is read, and the server continues.
        sandbox.haul(["source", &server.line]).run().ends(2).says(["pipe is read-only: writing is forbidden"]);
        let bare = server.line.strip_suffix(":-").unwrap();
        sandbox.haul([bare, "got"]).run().ends(2).says(["has a pipe and no directory", "end its line in :-"]);
        sandbox.haul([&server.line, "got"]).run().succeeds();
        ProgramRun::of(server.running).succeeds();
        assert!(fs::read(&source).unwrap() == fs::read(sandbox.path("got")).unwrap(), "{script}");
        fs::remove_file(sandbox.path("got")).unwrap();
    }
}

/// Data that went into a pipe cannot be sent again.
#[test]
fn a_disconnecting_client_ends_the_server_of_standard_output() {
    let sandbox = Sandbox::new();
    sandbox.big_file("sent", 40_000_000);
    let server = serve_standard(&sandbox, r#"exec "$0" serve --bind 127.0.0.1 - > out < /dev/null"#);
    let client = sandbox.haul(["--xfrrate", "4m", "sent", &server.line]).start();
    eventually("some has arrived", || fs::metadata(sandbox.path("out")).is_ok_and(|out| out.len() > 1_000_000));
    client.signal(Signal::KILL);
    ProgramRun::of(server.running).ends(4);
}

#[test]
fn a_killed_worker_may_have_used_the_pipe() {
    let sandbox = Sandbox::new();
    sandbox.big_file("sent", 40_000_000);
    let server = serve_standard(&sandbox, r#"exec "$0" serve --bind 127.0.0.1 - > out < /dev/null"#);
    let client = sandbox.haul(["--xfrrate", "4m", "sent", &server.line]).start();
    eventually("some has arrived", || fs::metadata(sandbox.path("out")).is_ok_and(|out| out.len() > 1_000_000));
    sandbox.haul(["sent", &server.line]).run().ends(3).says(["limit of clients (1)"]);
    let workers = descendants(server.running.id());
    assert_eq!(workers.len(), 1);
    kill_process(pid(workers[0]), Signal::KILL).expect("it is there");
    ProgramRun::of(client).ends(1);
    ProgramRun::of(server.running).ends(4);
}

/// The first client read nothing.
#[test]
fn a_client_whose_own_target_refuses_leaves_the_pipe_to_the_next() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    let server = serve_standard(&sandbox, r#"cat source | "$0" serve --bind 127.0.0.1 - --read-only"#);
    sandbox.haul([&server.line, "missing/directory/"]).run().ends(2);
    sandbox.haul([&server.line, "got"]).run().succeeds();
    ProgramRun::of(server.running).succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("got")).unwrap(), "content");
    let program = serve_program(&sandbox, &["--read-only"], "touch begun; cat source");
    sandbox.haul([&program.line, "missing/directory/"]).run().ends(2);
    assert!(!sandbox.path("begun").exists());
    program.end().succeeds();
}

#[test]
fn a_program_runs_for_each_client_and_its_failure_is_the_clients() {
    let sandbox = Sandbox::new();
    let (first, second) = (sandbox.big_file("first", 3_000_000), sandbox.file("second", "second"));
    let server = serve_program(&sandbox, &["--once"], "echo begun >> begun; cat > got.$(wc -l < begun); test ! -e bad");
    sandbox.haul(["-r", ".", &server.line]).run().ends(2).says(["a pipe takes one file"]);
    assert!(!sandbox.path("begun").exists(), "a refused request starts no program");
    sandbox.file("bad", "");
    sandbox.haul(["second", &server.line]).run().ends(1).says(["the program ended with status 1"]);
    fs::remove_file(sandbox.path("bad")).unwrap();
    sandbox.haul(["first", &server.line]).run().succeeds();
    eventually("both are logged", || server.logged("ended") == 3);
    let complete: Vec<_> = server.log("ended").iter().map(|event| event["complete"].clone()).collect();
    assert_eq!(complete, [false, false, true]);
    ProgramRun::of(server.running).succeeds();
    for (sent, got) in [(second, "got.1"), (first, "got.2")] {
        assert!(fs::read(sent).unwrap() == fs::read(sandbox.path(got)).unwrap(), "{got}");
    }
}

#[test]
fn a_programs_output_can_be_fetched_repeatedly() {
    let sandbox = Sandbox::new();
    let server = serve_program(&sandbox, &["--read-only"], "seq 1 200000");
    for copy in ["one", "two"] {
        sandbox.haul([&server.line, copy]).run().succeeds();
        assert_eq!(fs::read_to_string(sandbox.path(copy)).unwrap().lines().last(), Some("200000"));
    }
    server.end().succeeds();
}

/// Its limit covers both files of known size and pipes.
#[test]
fn a_program_gets_no_more_bytes_than_its_server_allows() {
    let sandbox = Sandbox::new();
    sandbox.big_file("sent", 3_000_000);
    let server = serve_program(&sandbox, &["--max-size", "2m"], "cat > got; wc -c < got > length");
    sandbox.haul(["sent", &server.line]).run().ends(1).says(["limit"]);
    shell(&sandbox, &format!("cat sent | \"$0\" - '{}'", server.line)).run().ends(1).says(["limit"]);
    server.end();
    let length = fs::metadata(sandbox.path("got")).map_or(0, |got| got.len());
    assert!(length <= 2 << 20, "{length}");
}

#[test]
fn the_secret_of_a_pipe_can_stay_in_a_file() {
    let sandbox = Sandbox::new();
    let secret = sandbox.secret_file("secret", "00112233445566778899aabbccddeeff\n");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.file("sent", "content");
    let server = serve_program(&sandbox, &["--once", "--secret-file", "secret"], "cat > got");
    assert!(server.line.ends_with("//-"), "{}", server.line);
    sandbox.haul(["--secret-file", "secret", "sent", &server.line]).run().succeeds();
    ProgramRun::of(server.running).succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("got")).unwrap(), "content");
}

#[test]
fn impossible_pipes_are_refused_at_the_start() {
    let sandbox = Sandbox::new();
    for (words, says) in [
        (&["serve", ".", "--pipe", "cat"][..], ". and --pipe contradict each other"),
        (&["serve", "--create", "--pipe", "cat"], "a pipe has no names"),
        (&["serve", "--create", "-"], "a pipe has no names"),
    ] {
        sandbox.haul(words).run().ends(2).says([says]);
    }
    let policy = sandbox.home().join(".config/haul");
    fs::create_dir_all(&policy).unwrap();
    fs::write(policy.join("policy"), "programs = no\n").unwrap();
    sandbox.haul(["serve", "--pipe", "cat"]).run().ends(2).says(["forbidden here: policy"]);
}
