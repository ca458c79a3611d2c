//! `haul serve`: keys, limits, comparisons, network addresses; the contents of the log, and the kernel's confinement.

use std::fs;
use std::time::Duration;

use haul_e2e::{
    ProgramRun, Remote, Sandbox, ServedShare, WORKER_MEMORY_MAX, assert_bounded_memory, cases, compare, contents,
    count, eventually, listing, mode, set_mtime, shell,
};

/// Makes a key in this file, and says its public one.
fn new_key(sandbox: &Sandbox, file: &str) -> String {
    let run = sandbox.haul(["serve", "--new-key", file]).run().succeeds();
    run.stdout.trim_end().to_owned()
}

/// A standing server with this file.
fn standing(sandbox: &Sandbox, file: &str) -> ServedShare {
    sandbox.file("serve.toml", file);
    ServedShare::standing(sandbox, "serve.toml")
}

/// The operand for a path in a directory of a standing server, with its key.
fn with_key(server: &ServedShare, path: &str) -> String {
    server.line.replace("/#", &format!("/{path}#"))
}

#[test]
fn clients_and_servers_authenticate_by_keys() {
    let sandbox = Sandbox::new();
    new_key(&sandbox, "serve.key");
    let ann = new_key(&sandbox, "ann.key");
    new_key(&sandbox, "bob.key");
    assert_eq!(mode(&sandbox.path("ann.key")), 0o600);
    let private = contents(&sandbox.path("ann.key"));
    sandbox.haul(["serve", "--new-key", "ann.key"]).run().ends(2).says(["ann.key", "exists"]);
    assert_eq!(contents(&sandbox.path("ann.key")), private);

    sandbox.file("data/file", "content");
    sandbox.secret_file("secret", "0f".repeat(16));
    let directory = format!("[in]\npath = \"data\"\nsecrets = [\"secret\"]\nkeys = [\"{ann}\"]\n");
    sandbox.file("serve.toml", &directory);
    let without = sandbox.haul(["serve", "--config", "serve.toml"]).run().ends(2);
    without.says(["[in]", "clients with keys need the server's public key", "--new-key"]);
    let server = standing(&sandbox, &format!("key = \"serve.key\"\n{directory}"));
    assert!(server.line.contains("/#haul-public-"), "{}", server.line);

    let (file, as_who) = (with_key(&server, "in/file"), |who: &str, from: &str| {
        sandbox.haul(["--secret-file", who, from, "back"]).run()
    });
    as_who("ann.key", &file).succeeds();
    assert_eq!(contents(&sandbox.path("back")), b"content");
    let connected = server.log("connected");
    assert_eq!(connected[0]["key"], ann.as_str(), "{connected:?}");
    as_who("bob.key", &file).ends(3).says(["the server refused the key"]);
    let plain = file.split('#').next().unwrap();
    as_who("secret", plain).succeeds();
    as_who("ann.key", plain).ends(2).says(["the server's public key is missing"]);
    as_who("secret", &file).ends(2).says(["--secret-file has a secret"]);
    sandbox.haul([&file, "back"]).run().ends(2).says(["your key is missing"]);
    // Another server's key: the client sends nothing more.
    let other = format!("{plain}#{ann}");
    as_who("ann.key", &other).ends(3).says(["the server failed to authenticate itself"]);
    assert_eq!(server.logged("connected"), 2);
    let key = String::from_utf8(private).unwrap();
    server.end().succeeds().does_not_say(key.trim_end());
}

#[test]
fn its_rate_covers_received_data_too() {
    let sandbox = Sandbox::new();
    let file = sandbox.big_file("file", 3_000_000);
    let server = ServedShare::start(&sandbox, &["--xfrrate", "1m"]);
    let run = sandbox.haul(["--xfrrate", "1g", "file", &server.line]).run().succeeds();
    assert!(run.elapsed > Duration::from_secs(2), "{}", run.account());
    compare(&file, &sandbox.path("shared/file")).unwrap();
    server.end().succeeds();
}

#[test]
fn received_bytes_respect_the_limit() {
    let sandbox = Sandbox::new();
    for (name, bytes) in [("tree/a", 600_000), ("tree/b", 600_000), ("tree/c", 100_000)] {
        sandbox.big_file(name, bytes);
    }
    let server = ServedShare::start(&sandbox, &["--max-size", "1000k"]);
    sandbox.haul(["-r", "tree", &server.line]).run().ends(1).says(["limit is 1000 KiB in all"]);
    let there = listing(&sandbox.path("shared/tree"));
    assert!(there.len() == 2 && there.contains(&"c".to_owned()), "{there:?}");
    // Data of unknown size: counted on arrival.
    let line = |bytes: &str| format!("head -c {bytes} /dev/zero | \"$0\" - '{}'", server.at(bytes));
    shell(&sandbox, &line("300000")).run().succeeds();
    sandbox.haul(["tree/c", &server.at("again")]).run().ends(1).says(["of which 24.0 kB are left"]);
    shell(&sandbox, &line("1100000")).run().ends(1).says(["limit is 1000 KiB in all"]);
    let mut there = listing(&sandbox.path("shared"));
    there.retain(|name| !name.starts_with('.'));
    assert_eq!(there, ["300000", "tree"]);
    server.end().succeeds();
}

#[test]
fn the_limit_of_files_covers_all_clients() {
    let sandbox = Sandbox::new();
    (0..10).for_each(|at| drop(sandbox.file(format!("tree/{at}"), "x")));
    let server = ServedShare::start(&sandbox, &["--max-files", "15"]);
    sandbox.haul(["-r", "tree", &server.line]).run().succeeds();
    sandbox.haul(["-r", "tree", &server.line]).run().succeeds();
    let refused = sandbox.haul(["-r", "tree", &server.at("again")]).run().ends(1);
    refused.says(["limit of 15 files and directories"]);
    sandbox.haul(["-r", "--mkdir", "tree", &server.at("a/b/c/d/e")]).run().ends(1).says(["limit of 15 files"]);
    assert!(!sandbox.path("shared/a").exists());
    server.end().succeeds();
}

#[test]
fn directories_are_bounded_by_its_limit_in_bytes() {
    let sandbox = Sandbox::new();
    (0..1100).for_each(|at| drop(sandbox.dir(format!("tree/{at}"))));
    let server = ServedShare::start(&sandbox, &["--write-only", "--max-size", "1m"]);
    sandbox.haul(["-r", "tree", &server.line]).run().ends(1).says(["limit of 1024 files and directories"]);
    assert_eq!(listing(&sandbox.path("shared/tree")).len(), 1023);
    server.end().succeeds();
}

#[test]
fn a_writer_of_many_names_takes_little_memory_of_the_server() {
    let sandbox = Sandbox::new();
    for directory in 0..3000 {
        let path = sandbox.dir(format!("tree/{directory:0>200}"));
        (0..5).for_each(|file| fs::write(path.join(format!("{file:0>200}")), "").expect("it is ours"));
    }
    let server = ServedShare::start(&sandbox, &["--write-only"]);
    let run = sandbox.haul(["-r", "--json", "tree", &server.line]).run().succeeds();
    let worker = run.summary()["target_peak_bytes"].as_u64().expect("it is told");
    assert!(worker > 0 && worker < WORKER_MEMORY_MAX, "{worker} bytes of the worker");
    assert_bounded_memory(server.end().succeeds().peak_memory_bytes, "the server");
}

#[test]
fn a_directory_accepts_its_tables_number_of_clients() {
    let sandbox = Sandbox::new();
    sandbox.big_file("file", 4_000_000);
    sandbox.secret_file("secret", "0f".repeat(16));
    let table = |name: &str, more: &str| {
        sandbox.dir(name);
        format!("[{name}]\npath = \"{name}\"\nsecrets = [\"secret\"]\n{more}\n")
    };
    let server = standing(&sandbox, &(table("one", "clients = 1\nrate = \"1m\"") + &table("any", "")));
    let send = |to: &str| sandbox.haul(["--secret-file", "secret", "file", &format!("{}{to}/", server.line)]);
    let first = send("one").start();
    eventually("it runs", || server.logged("connected") == 1);
    send("one").run().ends(3).says(["the directory has reached its limit of clients (1)", "try later"]);
    send("any").run().succeeds();
    let run = ProgramRun::of(first).succeeds();
    assert!(run.elapsed > Duration::from_secs(3), "its rate\n{}", run.account());
    let refused = server.log("refused");
    assert_eq!((refused.len(), &refused[0]["directory"]), (1, &"one".into()), "{refused:?}");
    server.end().succeeds();
}

#[test]
fn existing_files_can_be_compared_if_readable() {
    let sandbox = Sandbox::new();
    let tree = sandbox.tree("tree");
    let server = ServedShare::start(&sandbox, &["--write-only"]);
    sandbox.haul(["-r", "tree", &server.line]).run().succeeds();
    sandbox.haul(["verify", "-r", "tree", &server.at("tree")]).run().ends(2).says(["write-only"]);
    sandbox.haul(["verify", "-r", &server.at("tree"), "tree"]).run().ends(2).says(["write-only"]);
    // Existing files stay untouched, but a comparison would reveal their digests.
    sandbox
        .haul(["-r", "--omit", "--checksum", "md5", "tree", &server.line])
        .run()
        .ends(2)
        .says(["write-only", "digests of its files are secret"]);
    sandbox.haul(["-r", "--checksum", "%md5", "tree", &server.line]).run().succeeds();
    server.end().succeeds();
    let server = ServedShare::start(&sandbox, &["--read-only"]);
    for ends in [["tree", server.line.as_str()], ["tree/.", &server.at("tree")], [&server.at("tree/."), "tree"]] {
        sandbox.haul(["verify", "-r"]).args(ends).run().succeeds();
    }
    eventually("it is logged", || server.logged("ended") == 3);
    assert!(server.log("ended").iter().all(|event| event["direction"] == "compared"), "{:?}", server.log("ended"));
    sandbox.file("shared/tree/new", "only there");
    sandbox.haul(["verify", "-r", "tree", &server.line]).run().ends(1).says(["new"]);
    compare(&tree, &sandbox.path("tree")).unwrap();
    server.end().succeeds();
}

#[test]
fn pipes_are_the_clients_and_programs_nobodys() {
    let sandbox = Sandbox::new();
    let server = ServedShare::start(&sandbox, &[]);
    shell(&sandbox, &format!("printf content | \"$0\" - '{}'", server.at("piped"))).run().succeeds();
    let run = shell(&sandbox, &format!("\"$0\" '{}' -", server.at("piped"))).run().succeeds();
    assert_eq!(run.stdout, "content");
    let programs =
        [["--pipe", "o", "tree", &server.at("touch started")], ["--pipe", "i", &server.at("touch started"), "back"]];
    sandbox.file("tree", "content");
    for arguments in programs {
        sandbox.haul(arguments).run().ends(2).says(["starts no programs"]);
    }
    sandbox.file("list", "tree\n");
    sandbox.haul(["--infiles", "list", &server.at(".")]).run().succeeds();
    sandbox.file("list", format!("{}\n", server.at("tree")));
    sandbox.haul(["--infiles", "list", "back"]).run().ends(2).says(["reads no lists"]);
    sandbox.haul(["--preserve", "tree", &server.line]).run().ends(2).says(["omit -p"]);
    sandbox.haul(["--mode", "4755", "tree", &server.line]).run().ends(2).says(["no set-id"]);
    sandbox.haul(["--mode", "666", "tree", &server.at("open")]).run().succeeds();
    assert_eq!(mode(&sandbox.path("shared/open")) & 0o022, 0, "the umask holds");
    sandbox.haul(["--paths", "all", "--cpus", "0", "tree", &server.at("all")]).run().succeeds();
    let reasons: Vec<_> =
        server.log("ended").iter().filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect();
    assert!(reasons.iter().any(|reason| reason.contains("starts no programs")), "{reasons:?}");
    assert!(!sandbox.path("shared/started").exists() && !sandbox.path("started").exists());
    server.end().succeeds();
}

#[test]
fn the_other_end_may_be_a_third_host_or_a_server_too() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let file = sandbox.big_file("file", 3_000_000);
    let server = ServedShare::start(&sandbox, &[]);
    remote.haul(&sandbox).arg(remote.at(&file)).arg(&server.line).run().succeeds();
    compare(&file, &sandbox.path("shared/file")).unwrap();
    let there = sandbox.path("there");
    remote.haul(&sandbox).arg(server.at("file")).arg(remote.at(&there)).run().succeeds();
    compare(&file, &there).unwrap();

    // Neither of two servers connects to the other: through here, sealed between the two.
    sandbox.dir("other");
    let other = ServedShare::of(sandbox.haul(["serve", "--bind", "127.0.0.1", "--json", "other"]));
    let run = sandbox.haul(["--json", &server.at("file"), &other.line]).run().succeeds();
    compare(&file, &sandbox.path("other/file")).unwrap();
    assert_eq!(
        (&run.summary()["transport"]["kind"], &run.summary()["cipher"]),
        (&"control".into(), &"aes-128-gcm".into())
    );
    let words = sandbox.haul(["-v", "-f", &server.at("file"), &other.at("again")]).run().succeeds();
    words.says(["connection  through the connections of this machine, "]);
    // Within one server.
    sandbox.haul([&server.at("file"), &server.at("copy")]).run().succeeds();
    compare(&file, &sandbox.path("shared/copy")).unwrap();
    other.end().succeeds();
    server.end().succeeds();
}

#[test]
fn wrong_secrets_disturb_no_copy_and_are_logged() {
    let sandbox = Sandbox::new();
    let file = sandbox.big_file("file", 8_000_000);
    let server = ServedShare::start(&sandbox, &[]);
    let running = sandbox.haul(["--xfrrate", "1m", "file", &server.line]).start();
    eventually("the copy runs", || server.logged("connected") == 1);
    let wrong = format!("{}#{}:x", server.line.split('#').next().unwrap(), "00".repeat(16));
    let tries = cases("HAUL_WRONG_SECRETS", 20);
    for _ in 0..tries {
        sandbox.haul([&wrong, "back"]).run().ends(3);
    }
    ProgramRun::of(running).succeeds();
    compare(&file, &sandbox.path("shared/file")).unwrap();
    let strangers = server.log("stranger");
    let all: u64 = strangers.iter().map(|event| 1 + event["others"].as_u64().unwrap()).sum();
    assert!(!strangers.is_empty() && all <= tries as u64, "{strangers:?}");
    assert!(strangers[0]["reason"].as_str().unwrap().contains("wrong secret or key"), "{strangers:?}");
    server.end().succeeds();
    count("wrong-secrets-at-a-server", tries);
}

#[test]
fn a_kernel_without_landlock_is_refused_unless_allowed() {
    let sandbox = Sandbox::new();
    sandbox.file("shared/file", "content");
    let without = |options: &[&str]| {
        let serve = sandbox.haul(["serve", "--bind", "127.0.0.1", "--json"]).args(options).arg("shared");
        serve.injecting("landlock_create_ruleset", "error=ENOSYS")
    };
    for options in [&[][..], &["--require-sandbox"]] {
        without(options).run().ends(1).says(["cannot confine this server", "--allow-unsandboxed"]);
    }
    let both = ["serve", "--require-sandbox", "--allow-unsandboxed", "shared"];
    sandbox.haul(both).run().ends(2).says(["--require-sandbox", "--allow-unsandboxed"]);
    let server = ServedShare::of(without(&["--once", "--allow-unsandboxed"]));
    assert_eq!(server.logged("unconfined"), 1);
    sandbox.haul([&server.at("file"), "back"]).run().succeeds();
    ProgramRun::of(server.running).succeeds();
}

#[test]
fn a_server_without_deltas_reports_no_old_files() {
    let sandbox = Sandbox::new();
    let old = sandbox.big_file("shared/file", 3_000_000);
    let mut bytes = contents(&old);
    bytes[1_000_000] ^= 1;
    set_mtime(&sandbox.file("file", bytes), 1_700_000_000, 5);
    let server = ServedShare::start(&sandbox, &["--delta", "off"]);
    for how in [&["--delta", "rolling"][..], &["--inplace"]] {
        sandbox.haul(["-f"]).args(how).args(["file", &server.line]).run().ends(2).says(["makes no deltas"]);
    }
    let run = sandbox.haul(["--json", "-f", "file", &server.line]).run().succeeds();
    assert!(run.summary()["delta"].is_null(), "{}", run.summary());
    compare(&sandbox.path("file"), &old).unwrap();
    server.end().succeeds();
}
