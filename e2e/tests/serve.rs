//! `haul serve`: sending and fetching without ssh; authentication, permissions, and the server's end.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use haul_e2e::{
    ProgramRun, RUN_LIMIT, Sandbox, ServedShare, cases, compare, copy_haul_binary, count, eventually,
    hidden_or_partial, is_root_or_skip, pid, shell, within,
};
use haul_lab::descendants;
use rustix::process::{Signal, kill_process};

#[test]
fn files_sent_to_a_server_can_be_fetched_from_it() {
    let sandbox = Sandbox::new();
    let tree = sandbox.dir("tree");
    sandbox.file("tree/a/small", "small");
    sandbox.big_file("tree/big", 20_000_000);
    let server = ServedShare::start(&sandbox, &[]);
    sandbox.haul(["-r", "tree", &server.line]).run().succeeds();
    compare(&tree, &sandbox.path("shared/tree")).unwrap();
    sandbox.haul(["-r", &server.at("tree"), "back"]).run().succeeds();
    compare(&tree, &sandbox.path("back")).unwrap();
    sandbox.haul([&server.at("tree/a/small"), "one"]).run().succeeds();
    assert_eq!(fs::read(sandbox.path("one")).unwrap(), b"small");
    eventually("all is logged", || server.logged("ended") == 3);
    let secret = server.line.split('#').nth(1).expect("a secret").to_owned();
    let run = server.end().succeeds().does_not_say(&secret);
    let log: Vec<serde_json::Value> = run.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ended: Vec<_> = log.iter().filter(|event| event["event"] == "ended").collect();
    assert_eq!(ended.len(), 3, "{}", run.account());
    assert!(ended.iter().all(|event| event["complete"] == true), "{}", run.account());
    assert_eq!((&ended[0]["direction"], &ended[0]["files"]), (&"received".into(), &2.into()), "{}", run.account());
    assert_eq!((&ended[1]["direction"], &ended[1]["bytes"]), (&"sent".into(), &20_000_005.into()), "{}", run.account());
}

#[test]
fn it_ends_after_one_copy_or_when_its_time_is_over() {
    let sandbox = Sandbox::new();
    sandbox.file("file", "content");
    let server = ServedShare::start(&sandbox, &["--once"]);
    // A failed transfer does not count.
    sandbox.haul([&server.at("missing"), "back"]).run().ends(1);
    sandbox.haul(["file", &server.line]).run().succeeds();
    ProgramRun::of(server.running).succeeds();
    let server = ServedShare::start(&sandbox, &["--for", "1s"]);
    ProgramRun::of(server.running).succeeds();
}

#[test]
fn a_stopped_worker_is_ended_after_its_client_disconnects() {
    let sandbox = Sandbox::new();
    let tree = sandbox.dir("tree");
    sandbox.big_file("tree/big", 32_000_000);
    let server = ServedShare::start(&sandbox, &[]);
    let words = ["--json", "--silence", "3s", "--xfrrate", "4m", "-r", "tree", &server.line];
    let running = sandbox.haul(words).limit(2 * RUN_LIMIT).start();
    eventually("some has arrived", || hidden_or_partial(&sandbox.path("shared/tree"), &["big"], 1_000_000).is_some());
    let stopped = descendants(server.running.id());
    assert_eq!(stopped.len(), 1);
    kill_process(pid(stopped[0]), Signal::STOP).expect("it is there");
    let run = ProgramRun::of(running).succeeds();
    assert!(run.summary()["restarts"].as_u64().is_some_and(|count| count > 0), "{}", run.account());
    compare(&tree, &sandbox.path("shared/tree")).unwrap();
    server.end().succeeds();
}

/// Without a secret, for named networks only, and said at the start.
#[test]
fn a_server_can_be_open_to_a_network() {
    let sandbox = Sandbox::new();
    sandbox.file("file", "content");
    let server = ServedShare::start(&sandbox, &["--open", "127.0.0.0/8", "--write-only"]);
    assert!(server.line.ends_with("/#open"), "{}", server.line);
    assert_eq!(server.log("open")[0]["networks"], serde_json::json!(["127.0.0.0/8"]));
    sandbox.haul(["file", &server.line]).run().succeeds();
    assert_eq!(fs::read(sandbox.path("shared/file")).unwrap(), b"content");
    // Nobody gets there by leaving the secret out.
    sandbox.haul(["file", server.line.trim_end_matches("#open")]).run().ends(2).says(["its secret is missing"]);
    server.end().succeeds();
    let server = ServedShare::start(&sandbox, &["--open", "10.9.8.7", "--create"]);
    sandbox.haul(["file", &server.line]).run().ends(3).says(["not open to this network"]);
    server.end().succeeds();
    sandbox.file("serve.toml", "[pub]\npath = \"shared\"\naccess = \"read-only\"\nopen = [\"127.0.0.1\"]\n");
    let server = ServedShare::standing(&sandbox, "serve.toml");
    sandbox.haul([&format!("haul://{}/pub/file#open", server.address()), "back"]).run().succeeds();
    sandbox.haul(["serve", "--open", "127.0.0.1", "shared"]).run().ends(2).says(["lets strangers replace"]);
    sandbox.haul(["serve", "--open", "10.1.0.0/33", "shared"]).run().ends(2).says(["must be a network"]);
    server.end().succeeds();
}

#[test]
fn a_wrong_secret_reveals_nothing() {
    let sandbox = Sandbox::new();
    sandbox.file("shared/file", "content");
    let server = ServedShare::start(&sandbox, &[]);
    let last = if server.line.ends_with('0') { '1' } else { '0' };
    let wrong = format!("{}{last}", &server.line[..server.line.len() - 1]);
    for path in ["file", "missing"] {
        let run = sandbox.haul([&format!("{wrong}:{path}"), "back"]).run().ends(3);
        assert!(run.stderr.contains("the server refused the secret"), "{}", run.account());
    }
    assert_eq!(server.logged("connected"), 0);
    let none = server.line.split('#').next().unwrap();
    sandbox.haul([none, "back"]).run().ends(2).says(["its secret is missing"]);
    server.end().succeeds();
}

#[test]
fn strangers_disturb_no_copy() {
    let sandbox = Sandbox::new();
    let file = sandbox.big_file("file", 8_000_000);
    let server = ServedShare::start(&sandbox, &[]);
    let mut running = sandbox.haul(["--xfrrate", "1m", "file", &server.line]).start();
    eventually("the copy runs", || server.logged("connected") == 1);
    let knocks = cases("HAUL_KNOCKS", 1000);
    for number in 0..knocks {
        let mut stranger = TcpStream::connect(server.address()).expect("it listens");
        stranger.set_read_timeout(Some(RUN_LIMIT)).unwrap();
        let noise = [u8::try_from(number % 256).unwrap(); 100];
        // It may have hung up already.
        let _ = stranger.write_all(&noise).and_then(|()| stranger.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        // TLS says at most that this was no greeting.
        assert!(answer.len() <= 7, "a stranger was told {answer:?}");
    }
    assert!(!running.wait_up_to(Duration::ZERO), "the copy was over before all had come");
    assert!(within(RUN_LIMIT, || {
        running.signal(Signal::USR1);
        running.wait_up_to(Duration::from_millis(50))
    }));
    ProgramRun::of(running).succeeds();
    compare(&file, &sandbox.path("shared/file")).unwrap();
    server.end().succeeds();
    count("strangers-at-a-server", knocks);
}

#[test]
fn unoffered_paths_are_refused_by_name() {
    let sandbox = Sandbox::new();
    sandbox.file("shared/file", "content");
    sandbox.file("outside", "outside");
    std::os::unix::fs::symlink("../outside", sandbox.path("shared/link")).unwrap();
    std::os::unix::fs::symlink("..", sandbox.path("shared/up")).unwrap();
    let server = ServedShare::start(&sandbox, &["--read-only"]);
    sandbox.haul(["outside", &server.line]).run().ends(2).says(["read-only"]);
    sandbox.haul([&server.at("file"), "back"]).run().succeeds();
    for path in ["../outside", "/etc/passwd", "shared/../../outside"] {
        sandbox.haul([&server.at(path), "stolen"]).run().ends(2).says(["outside the served directory"]);
    }
    for path in ["link", "up/outside"] {
        sandbox.haul([&server.at(path), "stolen"]).run().ends(2).says(["follows no symbolic links"]);
    }
    for mode in ["follow", "follow-unsafe", "follow-dirs"] {
        let follow = ["-r", "--symlinks", mode, &server.at("."), "stolen"];
        sandbox.haul(follow).run().ends(2).says(["follows no symbolic links"]);
    }
    let named = server.line.replace("/#", "/incoming#");
    sandbox.haul([&named, "stolen"]).run().ends(3).says(["one directory, without a name"]);
    assert!(!sandbox.path("stolen").exists());
    server.end().succeeds();

    let server = ServedShare::start(&sandbox, &["--write-only"]);
    sandbox.haul([&server.at("file"), "stolen"]).run().ends(2).says(["write-only"]);
    sandbox.haul(["outside", &server.at("up/new")]).run().ends(2).says(["follows no symbolic links"]);
    sandbox.haul(["outside", &server.at("../new")]).run().ends(2).says(["outside the served directory"]);
    sandbox.haul(["outside", &server.line]).run().succeeds();
    assert!(!sandbox.path("new").exists() && !sandbox.path("stolen").exists());
    server.end().succeeds();
}

#[test]
fn two_clients_at_once_and_no_more_than_permitted() {
    let sandbox = Sandbox::new();
    let files = ["a", "b"].map(|name| sandbox.big_file(name, 4_000_000));
    let server = ServedShare::start(&sandbox, &["--clients", "2"]);
    let copies = ["a", "b"].map(|name| sandbox.haul(["--xfrrate", "2m", name, &server.line]).start());
    eventually("both run", || server.logged("connected") == 2);
    sandbox.haul(["a", &server.at("c")]).run().ends(3).says(["its limit", "try later"]);
    for (copy, file) in copies.into_iter().zip(files) {
        ProgramRun::of(copy).succeeds();
        compare(&file, &sandbox.path("shared").join(file.file_name().unwrap())).unwrap();
    }
    assert_eq!(server.logged("refused"), 1);
    server.end().succeeds();
}

#[test]
fn its_limit_holds_for_any_client() {
    let sandbox = Sandbox::new();
    sandbox.big_file("shared/file", 3_000_000);
    let server = ServedShare::start(&sandbox, &["--xfrrate", "1m"]);
    let run = sandbox.haul(["--xfrrate", "1g", &server.at("file"), "back"]).run().succeeds();
    assert!(run.elapsed > Duration::from_secs(2), "{}", run.account());
    server.end().succeeds();
}

#[test]
fn asked_to_end_it_lets_copies_finish_but_not_for_ever() {
    let sandbox = Sandbox::new();
    let file = sandbox.big_file("file", 4_000_000);
    let server = ServedShare::start(&sandbox, &[]);
    let copy = sandbox.haul(["--xfrrate", "2m", "file", &server.line]).start();
    eventually("it runs", || server.logged("connected") == 1);
    server.end().succeeds();
    ProgramRun::of(copy).succeeds();
    compare(&file, &sandbox.path("shared/file")).unwrap();

    let server = ServedShare::start(&sandbox, &["--grace", "0"]);
    let copy = sandbox.haul(["--xfrrate", "100k", "--retries", "0", "file", &server.at("other")]).start();
    eventually("it runs", || server.logged("connected") == 1);
    server.end().succeeds();
    let run = ProgramRun::of(copy);
    assert!(matches!(run.status, Some(3 | 4)), "{}", run.account());
}

#[test]
fn a_copy_resumes_after_a_kill_of_client_or_server() {
    for kill_server in [false, true] {
        let sandbox = Sandbox::new();
        let file = sandbox.big_file("file", 48_000_000);
        let shared = sandbox.dir("shared");
        let mut server = ServedShare::start(&sandbox, &[]);
        let copy = sandbox.haul(["--xfrrate", "10m", "--retries", "0", "file", &server.line]).start();
        eventually("some of it is there", || hidden_or_partial(&shared, &[], 20_000_000).is_some());
        let killed = if kill_server { server.running.id() } else { copy.id() };
        kill_process(pid(killed), Signal::KILL).expect("it ran");
        let run = ProgramRun::of(copy);
        assert_ne!(run.status, Some(0), "{}", run.account());
        if !kill_server {
            eventually("the server has noticed", || server.logged("ended") == 1);
        } else {
            drop(server);
            server = ServedShare::start(&sandbox, &[]);
        }
        let run = sandbox.haul(["--json", "file", &server.line]).run().succeeds();
        compare(&file, &shared.join("file")).unwrap();
        let carried = run.summary()["bytes"].as_u64().expect("a number");
        assert!(carried < 40_000_000, "nothing of it was gone on with\n{}", run.account());
        server.end().succeeds();
    }
}

#[test]
fn a_secret_may_be_in_a_file() {
    let sandbox = Sandbox::new();
    sandbox.secret_file("secret", "000102030405060708090a0b0c0d0e0f\n");
    sandbox.file("file", "content");
    let server = ServedShare::start(&sandbox, &["--secret-file", "secret"]);
    assert!(!server.line.contains('#'), "{}", server.line);
    sandbox.haul(["--secret-file", "secret", "file", &server.line]).run().succeeds();
    assert_eq!(fs::read(sandbox.path("shared/file")).unwrap(), b"content");
    server.end().succeeds();
}

#[test]
fn a_standing_server_has_several_directories_each_with_its_secrets() {
    let sandbox = Sandbox::new();
    for (name, digit) in [("ann", "a"), ("bob", "b")] {
        sandbox.secret_file(name, digit.repeat(32));
    }
    sandbox.file("data/public/file", "content");
    sandbox.dir("data/in");
    let config = "[public]\npath = \"data/public\"\naccess = \"read-only\"\nsecrets = [\"ann\", \"bob\"]\n\
                  [in]\npath = \"data/in\"\naccess = \"write-only\"\nsecrets = [\"ann\"]\n";
    sandbox.file("serve.toml", config);
    let server = ServedShare::standing(&sandbox, "serve.toml");
    let at = |path: &str| format!("{}{path}", server.line);
    let as_who = |who: &str, from: &str, to: &str| sandbox.haul(["--secret-file", who, from, to]).run();
    as_who("bob", &at("public/file"), "back").succeeds();
    as_who("ann", "ann", &at("in/sent")).succeeds();
    assert_eq!(fs::read(sandbox.path("data/in/sent")).unwrap().len(), 32);
    as_who("ann", "ann", &at("public/")).ends(2).says(["read-only"]);
    as_who("ann", &at("in/sent"), "stolen").ends(2).says(["write-only"]);
    as_who("bob", "bob", &at("in/")).ends(3).says(["this secret gives no access to a directory in"]);
    as_who("bob", &at("none/file"), "stolen").ends(3).says(["available: public"]);
    as_who("bob", &at(""), "stolen").ends(3).says(["this secret gives access to public"]);
    as_who("ann", &at("public/../in/sent"), "stolen").ends(2).says(["outside the served directory"]);
    server.end().succeeds();
}

#[test]
fn a_config_file_writable_by_others_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.secret_file("ann", "a".repeat(32));
    sandbox.dir("in");
    sandbox.file("serve.toml", "[in]\npath = \"in\"\nsecrets = [\"ann\"]\n");
    let set_mode = |path: &str, mode| fs::set_permissions(sandbox.path(path), Permissions::from_mode(mode)).unwrap();
    let serve = || sandbox.haul(["serve", "--bind", "127.0.0.1", "--for", "1s", "--config", "serve.toml"]);
    // Group 0 is root's own.
    for mode in [0o666, 0o646] {
        set_mode("serve.toml", mode);
        serve().run().ends(2).says([
            "serve.toml: others can write it",
            "access to any directory",
            "chmod go-w serve.toml",
        ]);
    }
    set_mode("serve.toml", 0o644);
    set_mode("ann", 0o644);
    serve().run().ends(2).says(["ann: others can read or write it", "chmod 600"]);
    set_mode("ann", 0o600);
    let server = ServedShare::standing(&sandbox, "serve.toml");
    // A file planted while the server runs is ignored as well.
    set_mode("serve.toml", 0o666);
    server.running.signal(Signal::HUP);
    eventually("the reload is logged", || server.logged("not_reloaded") == 1);
    let log = server.log("not_reloaded");
    assert!(log[0]["reason"].as_str().is_some_and(|error| error.contains("others can write it")), "{log:?}");
    server.end().succeeds();
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let sandbox = Sandbox::new();
    sandbox.dir("shared");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let run = sandbox.haul(["serve", "--bind", "127.0.0.1", "--port", &port.to_string(), "shared"]).run().ends(1);
    run.says([&*format!("port {port} is in use: choose another with --port")]);
    let run = sandbox.haul(["serve", "--bind", "192.0.2.77", "shared"]).run().ends(1);
    run.says(["cannot listen at 192.0.2.77: "]);
}

/// In a chroot without /proc and /sys.
#[test]
fn a_server_needs_no_proc() {
    if !is_root_or_skip("chroot") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    for directory in ["bin", "dev", "shared"] {
        sandbox.dir(format!("root/{directory}"));
    }
    copy_haul_binary(&sandbox.path("root/bin/haul"));
    let line = "cd root && HOME=/ exec /usr/sbin/chroot . /bin/haul serve --bind 127.0.0.1 --json /shared";
    let server = ServedShare::of(shell(&sandbox, line));
    sandbox.haul(["-r", "source", &server.at("there")]).run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("root/shared/there")).unwrap();
    sandbox.haul(["-r", &server.at("there"), "back"]).run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("back")).unwrap();
    server.end().succeeds();
}
