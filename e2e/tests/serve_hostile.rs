//! `haul serve` against those who attack it: local users who exchange paths, clients that want more than they may have,
//! and strangers who take all places.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_e2e::{
    ProgramRun, RUN_LIMIT, Sandbox, ServedShare, cases, contents, count, eventually, fifo, is_root_or_skip, listing,
    shell,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;

/// Content that must never arrive.
const SECRET: &str = "the outside's";

/// A server on a kernel without Landlock.
fn without_landlock(sandbox: &Sandbox) -> ServedShare {
    let options = ["serve", "--bind", "127.0.0.1", "--json", "--allow-unsandboxed", "--clients", "64", "shared"];
    ServedShare::of(sandbox.haul(options).injecting("landlock_create_ruleset", "error=ENOSYS"))
}

/// Exchanges directories and files for links that lead outside, as fast as that goes, while `work` is done.
fn raced<T>(pairs: &[(PathBuf, PathBuf)], work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let exchange = || {
        while !over.load(Ordering::Relaxed) {
            // Each is valid most of the time, to avoid early refusals of requests.
            for (inside, link) in pairs {
                for _ in 0..2 {
                    let _ = renameat_with(CWD, inside, CWD, link, RenameFlags::EXCHANGE);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(exchange);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether a file below a directory has forbidden content.
fn has_leaked(directory: &Path) -> bool {
    fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() { has_leaked(&path) } else { kind.is_file() && contents(&path).starts_with(SECRET.as_bytes()) }
    })
}

#[test]
fn exchanged_paths_lead_nowhere_without_landlock() {
    let sandbox = Sandbox::new();
    for file in (0..16).map(|number| format!("outside/in{number}")).chain(["outside/file".to_owned()]) {
        sandbox.file(file, SECRET);
    }
    sandbox.file("new", "new");
    let pairs: Vec<_> = (0..16)
        .flat_map(|number| {
            let (dir, file) = (format!("shared/d{number}"), format!("shared/f{number}"));
            sandbox.file(format!("{dir}/in{number}"), "inside");
            sandbox.file(&file, "inside");
            let links = [format!("shared/ld{number}"), format!("shared/lf{number}")].map(|link| sandbox.path(link));
            symlink(sandbox.path("outside"), &links[0]).expect("a link");
            symlink(sandbox.path("outside/file"), &links[1]).expect("a link");
            [sandbox.path(dir), sandbox.path(file)].into_iter().zip(links)
        })
        .collect();
    let server = without_landlock(&sandbox);
    let operands: Vec<_> = (0..16)
        .flat_map(|number| [format!("d{number}/in{number}"), format!("f{number}")])
        .map(|path| server.at(&path))
        .collect();
    let seconds = cases("HAUL_RACE_SECONDS", 4);
    let (mut runs, mut fetched, begun) = (0, 0, Instant::now());
    while begun.elapsed() < Duration::from_secs(seconds) || fetched == 0 {
        let back = sandbox.dir(format!("back{runs}"));
        let to = server.at(&format!("d{}/new{runs}", runs % 16));
        let mut last = String::new();
        let backed_up = format!("--backup-dir=d{}/old", (runs + 1) % 16);
        raced(&pairs, || {
            last = sandbox.haul(["-f", "--retries", "0"]).args(&operands).arg(&back).run().account();
            sandbox.haul(["-f", "--retries", "0", "--mkdir", &backed_up, "new", &to]).run();
            sandbox.haul(["-r", "--retries", "0", &server.at(&format!("d{}", runs % 16)), "tree"]).run();
        });
        assert!(!has_leaked(&back) && !has_leaked(&sandbox.path("tree")), "run {runs}");
        assert_eq!(listing(&sandbox.path("outside")).len(), 17, "run {runs}");
        assert_eq!(contents(&sandbox.path("outside/file")), SECRET.as_bytes());
        fetched += listing(&back).len();
        runs += 1;
        if begun.elapsed() >= RUN_LIMIT / 2 {
            assert!(fetched > 0, "nothing was fetched in {runs} runs\n{last}");
        }
    }
    count("path-race-without-landlock", runs);
    // strace is the parent: it ends with the traced program.
    drop(server);
}

#[test]
fn a_directory_for_new_names_keeps_its_files() {
    let sandbox = Sandbox::new();
    sandbox.file("shared/dir/theirs", "theirs");
    symlink("theirs", sandbox.path("shared/dir/link")).expect("a link");
    sandbox.file("mine/dir/theirs", "mine, and longer");
    sandbox.file("mine/dir/new", "new");
    sandbox.file("mine/dir/sub/new", "new");
    symlink("new", sandbox.path("mine/dir/link")).expect("a link");
    fs::set_permissions(sandbox.path("mine/dir"), fs::Permissions::from_mode(0o700)).expect("it is ours");
    let server = ServedShare::start(&sandbox, &["--create"]);
    sandbox.haul(["mine/dir/new", &server.at("sent")]).run().succeeds();
    assert_eq!(contents(&sandbox.path("shared/sent")), b"new");
    // A rerun of the same is no change, and another content none either.
    sandbox.haul(["mine/dir/new", &server.at("sent")]).run().succeeds();
    sandbox.haul(["mine/dir/theirs", &server.at("sent")]).run().ends(1).says(["already exists"]);
    let run = sandbox.haul(["-r", "mine/dir", &server.line]).run().ends(1);
    run.says(["dir/theirs", "dir/link", "already exists"]);
    assert_eq!(contents(&sandbox.path("shared/dir/theirs")), b"theirs");
    assert_eq!(fs::read_link(sandbox.path("shared/dir/link")).expect("a link"), Path::new("theirs"));
    assert_eq!(contents(&sandbox.path("shared/dir/sub/new")), b"new");
    assert_eq!(haul_e2e::mode(&sandbox.path("shared/dir")), 0o755, "a directory that was there keeps its mode");
    for options in [&["-f"][..], &["-f", "--delta", "blocks"], &["--hard-links"], &["--backup-dir", "old", "-f"]] {
        sandbox.haul(["-r"]).args(options).args(["mine/dir", &server.line]).run().ends(2).says(["new names only"]);
    }
    sandbox.haul(["sync", "--delete", "mine/dir/", &server.at("dir")]).run().ends(2);
    sandbox.haul([&server.at("sent"), "stolen"]).run().ends(2).says(["reading is forbidden"]);
    sandbox.haul(["verify", "mine/dir/new", &server.at("sent")]).run().ends(2).says(["comparing is forbidden"]);
    assert_eq!(listing(&sandbox.path("shared/dir")), ["link", "new", "sub", "theirs"]);
    assert!(!sandbox.path("stolen").exists());
    server.end().succeeds();
    sandbox.haul(["serve", "--create", "--read-only", "shared"]).run().ends(2).says(["--create", "--read-only"]);
}

#[test]
fn no_unfinished_file_is_left_in_a_directory_for_new_names() {
    let sandbox = Sandbox::new();
    sandbox.big_file("file", 4_000_000);
    let server = ServedShare::start(&sandbox, &["--create"]);
    let copy = sandbox.haul(["--xfrrate", "500k", "--retries", "0", "file", &server.line]).start();
    let shared = sandbox.path("shared");
    eventually("some of it is there", || haul_e2e::hidden_or_partial(&shared, &[], 200_000).is_some());
    copy.signal(Signal::INT);
    ProgramRun::of(copy);
    eventually("it is removed", || server.logged("ended") == 1 && listing(&shared).is_empty());
    sandbox.haul(["file", &server.line]).run().succeeds();
    server.end().succeeds();
}

#[test]
fn links_leading_outside_are_refused_unless_allowed() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/sub/file", "content");
    for (link, points_to) in [
        ("tree/absolute", "/etc/passwd"),
        ("tree/up", "../../etc/passwd"),
        ("tree/sub/up", "../../../x"),
        ("tree/behind", "sub/../../../x"),
    ] {
        symlink(points_to, sandbox.path(link)).expect("a link");
    }
    for (link, points_to) in [("tree/inside", "sub/file"), ("tree/sub/back", "../inside"), ("tree/dangling", "nothing")]
    {
        symlink(points_to, sandbox.path(link)).expect("a link");
    }
    for access in [&[][..], &["--write-only"], &["--create"], &["--create", "--allow-unsafe-links"]] {
        let server = ServedShare::start(&sandbox, access);
        let run = sandbox.haul(["-r", "tree", &server.line]).run().ends(1);
        run.says(["tree/absolute", "tree/up", "tree/sub/up", "tree/behind", "may lead out of the served directory"]);
        assert_eq!(listing(&sandbox.path("shared/tree")), ["dangling", "inside", "sub"], "{access:?}");
        assert_eq!(listing(&sandbox.path("shared/tree/sub")), ["back", "file"], "{access:?}");
        // Under another name, and as the operand's contents: the depth is that of the directory.
        sandbox.haul(["-r", "tree", &server.at("other")]).run().ends(1);
        assert_eq!(listing(&sandbox.path("shared/other")), ["dangling", "inside", "sub"], "{access:?}");
        fs::remove_dir_all(sandbox.path("shared")).expect("it is ours");
        server.end();
    }
    let server = ServedShare::start(&sandbox, &["--allow-unsafe-links"]);
    sandbox.haul(["-r", "tree", &server.line]).run().succeeds();
    assert_eq!(fs::read_link(sandbox.path("shared/tree/absolute")).expect("a link"), Path::new("/etc/passwd"));
    server.end().succeeds();
}

#[test]
fn devices_fifos_and_sockets_are_neither_written_nor_read_nor_made() {
    if !is_root_or_skip("a device") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("file", "content");
    for directory in ["shared", "tree"] {
        let directory = sandbox.dir(directory);
        fifo(&directory.join("pipe"));
        let (kind, mode) = (rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::from_raw_mode(0o666));
        rustix::fs::mknodat(CWD, directory.join("null"), kind, mode, rustix::fs::makedev(1, 3)).expect("root may");
    }
    let socket = std::os::unix::net::UnixListener::bind(sandbox.path("shared/socket")).expect("a socket");
    socket.set_nonblocking(true).expect("it can be set");
    // Whoever writes to the FIFO is heard; who opens it to read does not wait.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a flag");
    let mut pipe = fs::File::options().read(true).custom_flags(nonblocking).open(sandbox.path("shared/pipe")).unwrap();
    for access in [&[][..], &["--write-only"], &["--allow-unsafe-links"]] {
        let server = ServedShare::start(&sandbox, access);
        for name in ["pipe", "null", "socket"] {
            for options in [&[][..], &["-f"]] {
                let run = sandbox.haul(options).args(["file", &server.at(name)]).run();
                assert!(matches!(run.status, Some(1 | 2)), "{name}, {access:?}\n{}", run.account());
                run.says(["device, FIFO or socket"]);
            }
            assert_ne!(sandbox.haul([&server.at(name), "back"]).run().status, Some(0), "{name}");
        }
        for option in ["--devices", "--specials"] {
            let run = sandbox.haul(["-r", option, "tree", &server.at("made")]).run();
            run.ends(2).says(["a server creates no devices, FIFOs or sockets"]);
        }
        sandbox.haul(["-r", "tree", &server.at("made")]).run();
        assert_eq!(listing(&sandbox.path("shared/made")), [""; 0]);
        fs::remove_dir(sandbox.path("shared/made")).expect("it is ours");
        server.end();
        assert_eq!(listing(&sandbox.path("shared")), ["null", "pipe", "socket"]);
        assert_eq!(pipe.read(&mut [0; 9]).unwrap_or(0), 0, "something was written to the FIFO");
        assert!(socket.accept().is_err(), "somebody connected to the socket");
    }
}

#[test]
fn secrets_and_keys_reachable_by_others_are_refused_at_both_ends() {
    let sandbox = Sandbox::new();
    sandbox.file("file", "content");
    sandbox.dir("shared");
    let secret = sandbox.secret_file("private/secret", "0f".repeat(16));
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    let server = ServedShare::start(&sandbox, &["--secret-file", "private/secret"]);
    let send = || sandbox.haul(["--secret-file", "private/secret", "file", &server.line]).run();
    let serve = || sandbox.haul(["serve", "--for", "1s", "--secret-file", "private/secret", "shared"]).run();
    send().succeeds();
    for (path, mode, back, remedy) in [
        (secret.as_path(), 0o640, 0o600, "chmod 600"),
        (secret.as_path(), 0o602, 0o600, "chmod 600"),
        (&sandbox.path("private"), 0o777, 0o755, "chmod go-w"),
    ] {
        chmod(path, mode);
        send().ends(2).says(["private", remedy]);
        serve().ends(2).says(["private", remedy]);
        chmod(path, back);
    }
    send().succeeds();
    sandbox.haul(["serve", "--new-key", "private/serve.key"]).run().succeeds();
    chmod(&sandbox.path("private/serve.key"), 0o644);
    sandbox
        .file("serve.toml", "key = \"private/serve.key\"\n[in]\npath = \"shared\"\nsecrets = [\"private/secret\"]\n");
    sandbox.haul(["serve", "--config", "serve.toml"]).run().ends(2).says(["serve.key", "chmod 600"]);
    server.end().succeeds();
}

#[test]
fn a_server_may_require_encryption_and_decides_about_its_network() {
    let sandbox = Sandbox::new();
    sandbox.big_file("file", 100_000);
    let server = ServedShare::start(&sandbox, &["--require-encryption"]);
    sandbox.haul(["--no-encrypt", "file", &server.line]).run().ends(2).says(["requires encryption", "--no-encrypt"]);
    sandbox.haul(["file", &server.line]).run().succeeds();
    // A congestion control that this kernel may lack: not requested there.
    sandbox.haul(["--window", "1m", "file", &server.at("tuned")]).run().succeeds();
    server.end().succeeds();
    sandbox.secret_file("secret", "0f".repeat(16));
    sandbox.file(
        "serve.toml",
        "[in]\npath = \"shared\"\nsecrets = [\"secret\"]\nrequire-encryption = true\n\
         [out]\npath = \"shared\"\nsecrets = [\"secret\"]\n",
    );
    let server = ServedShare::standing(&sandbox, "serve.toml");
    let send = |to: &str| {
        sandbox.haul(["--no-encrypt", "--secret-file", "secret", "file", &format!("{}{to}/new", server.line)]).run()
    };
    send("in").ends(2).says(["requires encryption"]);
    send("out").succeeds();
    server.end().succeeds();
}

#[test]
fn idle_connections_block_no_client() {
    let sandbox = Sandbox::new();
    sandbox.file("file", "content");
    let server = ServedShare::start(&sandbox, &[]);
    let knock = || TcpStream::connect(server.address()).expect("it listens");
    let mut idle: Vec<_> = (0..100).map(|_| knock()).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // And more of them all the time.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                drop(knock());
                idle.push(knock());
                if idle.len() > 300 {
                    idle.drain(..100);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        for name in ["a", "b", "c"] {
            let run = sandbox.haul(["file", &server.at(name)]).run();
            over.store(name == "c" || run.status != Some(0), Ordering::Relaxed);
            run.succeeds();
        }
    });
    assert_eq!(contents(&sandbox.path("shared/c")), b"content");
    eventually("it is logged", || {
        server
            .log("stranger")
            .iter()
            .any(|event| event["reason"].as_str().is_some_and(|reason| reason.contains("closed for newer ones")))
    });
    server.end().succeeds();
}

/// Closes every connection as it comes, as a server does that has no place for it.
#[test]
fn a_busy_server_is_retried_and_distinguished_from_a_wrong_secret() {
    let sandbox = Sandbox::new();
    sandbox.file("shared/file", "content");
    let server = ServedShare::start(&sandbox, &[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let busy = server.line.replace(&server.address(), &listener.local_addr().expect("an address").to_string());
    let address = server.address();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        // Three are refused, one of them in the middle of its greeting; the fourth is accepted.
        let door = scope.spawn(|| {
            for number in 0..3 {
                let (mut client, _) = listener.accept().expect("a client");
                if number == 1 {
                    let _ = client.read(&mut [0; 100]);
                }
                drop(client);
            }
            let (client, _) = listener.accept().expect("a client");
            let server = TcpStream::connect(&address).expect("the server");
            let (mut client_out, mut server_out) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut &client, &mut server_out);
                let _ = server_out.shutdown(std::net::Shutdown::Write);
            });
            let _ = std::io::copy(&mut &server, &mut client_out);
            let _ = client_out.shutdown(std::net::Shutdown::Write);
        });
        sandbox.haul([&format!("{busy}:file"), "back"]).run().succeeds();
        door.join().expect("it closes");
    });
    assert_eq!(contents(&sandbox.path("back")), b"content");
    // A client without a place: the last message names the possible causes without the secret.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        listener.set_nonblocking(true).expect("it can be set");
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                drop(listener.accept());
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let run = sandbox.haul(["--retries", "0", &format!("{busy}:file"), "back2"]).run();
        over.store(true, Ordering::Relaxed);
        run.ends(3).says(["the server is busy"]).does_not_say("secret");
    });
    assert!(begun.elapsed() < RUN_LIMIT);
    server.end().succeeds();
}

/// A permanent server with a client's key in its file.
fn with_keys(sandbox: &Sandbox, keys: &str) {
    sandbox.dir("data");
    sandbox.file("serve.toml", format!("key = \"serve.key\"\n[in]\npath = \"data\"\nkeys = [{keys}]\n"));
}

fn new_key(sandbox: &Sandbox, file: &str) -> String {
    sandbox.haul(["serve", "--new-key", file]).run().succeeds().stdout.trim_end().to_owned()
}

#[test]
fn keys_are_revoked_without_a_restart_and_their_sessions_end() {
    let sandbox = Sandbox::new();
    new_key(&sandbox, "serve.key");
    let (ann, bob) = (new_key(&sandbox, "ann.key"), new_key(&sandbox, "bob.key"));
    with_keys(&sandbox, &format!("\"{ann}\", \"{bob}\""));
    let file = sandbox.big_file("file", 6_000_000);
    let server = ServedShare::standing(&sandbox, "serve.toml");
    let send = |who: &str, to: &str| {
        let (to, rate) = (server.line.replace("/#", &format!("/in/{to}#")), if to == "ann" { "100k" } else { "1m" });
        sandbox.haul(["--secret-file", who, "--xfrrate", rate, "--retries", "0", "file"]).arg(to)
    };
    let hang_up = |event: &str, count| {
        server.running.signal(Signal::HUP);
        eventually("the file was read again", || server.logged(event) == count);
    };
    let copies = ["ann", "bob"].map(|who| send(&format!("{who}.key"), who).start());
    eventually("both run", || server.logged("connected") == 2);
    // An invalid file changes nothing.
    sandbox.file("serve.toml", "[in\n");
    hang_up("not_reloaded", 1);
    assert!(server.log("not_reloaded")[0]["reason"].as_str().is_some_and(|reason| reason.contains("serve.toml")));
    with_keys(&sandbox, &format!("{{ key = \"{ann}\", revoked = true }}, \"{bob}\""));
    hang_up("reloaded", 1);
    let [of_ann, of_bob] = copies;
    assert_ne!(ProgramRun::of(of_ann).status, Some(0));
    let is_revoked =
        |event: &serde_json::Value| event["reason"].as_str().is_some_and(|why| why.contains("expired or revoked"));
    eventually("it is logged", || server.log("ended").iter().any(is_revoked));
    send("ann.key", "again").run().ends(3).says(["the server refused the key"]);
    ProgramRun::of(of_bob).succeeds();
    haul_e2e::compare(&file, &sandbox.path("data/bob")).expect("the same");
    // Taken out of the file, it is as good as revoked; a new one is let in at once.
    let carl = new_key(&sandbox, "carl.key");
    with_keys(&sandbox, &format!("\"{carl}\""));
    hang_up("reloaded", 2);
    send("bob.key", "again").run().ends(3).says(["the server refused the key"]);
    let new = server.line.replace("/#", "/in/carl#");
    sandbox.haul(["--secret-file", "carl.key", "file", &new]).run().succeeds();
    server.end().succeeds();
}

#[test]
fn keys_expire_also_while_they_are_in_use() {
    let sandbox = Sandbox::new();
    new_key(&sandbox, "serve.key");
    let [ann, bob] = ["ann", "bob"].map(|name| new_key(&sandbox, &format!("{name}.key")));
    let then = shell(&sandbox, "date -u -d '5 seconds' +%Y-%m-%dT%H:%M:%SZ").run().succeeds().stdout;
    let then = then.trim_end();
    with_keys(
        &sandbox,
        &format!("{{ key = \"{ann}\", expires = {then} }}, {{ key = \"{bob}\", expires = 2026-01-31 }}"),
    );
    sandbox.big_file("file", 20_000_000);
    let server = ServedShare::standing(&sandbox, "serve.toml");
    let to = server.line.replace("/#", "/in/#");
    let send = |who: &str| sandbox.haul(["--secret-file", who, "--xfrrate", "1m", "--retries", "0", "file", &to]);
    send("bob.key").run().ends(3).says(["the server refused the key", "expired"]);
    let run = send("ann.key").run();
    assert_ne!(run.status, Some(0), "{}", run.account());
    eventually("it is logged", || server.logged("ended") == 1);
    assert!(server.log("ended")[0]["reason"].as_str().is_some_and(|reason| reason.contains("expired")));
    send("ann.key").run().ends(3).says(["the server refused the key"]);
    server.end().succeeds();
}
