//! Copies to and from a host that the system's ssh reaches.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

use haul_e2e::{Attributes, Options, ProgramRun, Remote, Sandbox, compare, compare_with, contents, listing};

#[test]
fn a_file_is_pushed_and_pulled() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source", 40_000_007);
    let pushed = remote.haul(&sandbox).args(["-v", "source"]).arg(remote.at(sandbox.path("there"))).run().succeeds();
    compare(&source, &sandbox.path("there")).unwrap();
    pushed.says(["1 file", "verified", "connection", "aes-128-gcm"]);
    remote.haul(&sandbox).arg(remote.at(sandbox.path("there"))).arg("back").run().succeeds().says(["verified"]);
    compare(&source, &sandbox.path("back")).unwrap();
    remote.is_left_clean();
}

#[test]
fn a_tree_is_pushed_and_pulled() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.tree("source");
    let there = sandbox.dir("there");
    remote.haul(&sandbox).args(["-r", "--preserve", "source"]).arg(remote.at(&there)).run().succeeds();
    remote.haul(&sandbox).args(["-r", "--preserve"]).arg(remote.at(there.join("source"))).arg("back").run().succeeds();
    let all = Attributes { modes: true, owners: true, mtimes: true, ..Attributes::default() };
    compare_with(&source, &sandbox.path("there/source"), all).unwrap();
    compare_with(&source, &sandbox.path("back"), all).unwrap();
    remote.is_left_clean();
}

#[test]
fn a_rerun_over_ssh_neither_copies_nor_nests() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.tree("source");
    let target = remote.at(sandbox.path("target"));
    let push = || remote.haul(&sandbox).args(["--json", "-r", "source"]).arg(&target).run().succeeds().summary();
    let (first, second) = (push(), push());
    assert_eq!(second["files_copied"], 0, "{second}");
    assert_eq!(second["files_skipped"], first["files_copied"], "{second}");
    compare(&source, &sandbox.path("target")).unwrap();
}

#[test]
fn several_remote_sources_are_pulled_at_once() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("one", "1");
    sandbox.file("two", "22");
    sandbox.dir("target");
    let sources = ["one", "two"].map(|name| remote.at(sandbox.path(name)));
    remote.haul(&sandbox).args(&sources).arg("target").run().succeeds();
    assert_eq!(listing(&sandbox.path("target")), ["one", "two"]);
    remote.haul(&sandbox).args(&sources).arg("one of them").run().ends(2).says(["one of them", "directory"]);
}

#[test]
fn paths_without_a_slash_start_in_the_login_directory() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("local", "from here");
    sandbox.file("remote-home/sub/there", "from there");
    remote.haul(&sandbox).arg(remote.at("sub/there")).arg("got").run().succeeds();
    assert_eq!(contents(&sandbox.path("got")), b"from there");
    remote.haul(&sandbox).arg(remote.at("~/sub/there")).arg("got too").run().succeeds();
    assert_eq!(contents(&sandbox.path("got too")), b"from there");
    remote.haul(&sandbox).arg("local").arg(remote.at("sub")).run().succeeds();
    remote.haul(&sandbox).arg("local").arg(remote.at("~/new name")).run().succeeds();
    remote.haul(&sandbox).arg("local").arg(remote.at("")).run().succeeds();
    for name in ["sub/local", "new name", "local"] {
        assert_eq!(contents(&remote.home().join(name)), b"from here", "{name}");
    }
}

#[test]
fn an_account_can_be_named() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", "content");
    let user = Command::new("id").arg("-un").output().expect("id").stdout;
    let mut target = OsString::from(String::from_utf8_lossy(&user).trim());
    target.push("@");
    target.push(remote.at(sandbox.path("target")));
    remote.haul(&sandbox).arg("source").arg(target).run().succeeds();
    assert_eq!(contents(&sandbox.path("target")), b"content");
}

#[test]
fn an_ipv6_address_is_written_in_brackets() {
    if !fs::read_to_string("/proc/net/if_inet6").unwrap_or_default().contains("00000000000000000000000000000001") {
        println!("SKIPPED: this machine has no ::1");
        return;
    }
    let sandbox = Sandbox::new();
    let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let remote = Remote::with_haul(&sandbox, Options { address, ..Options::default() });
    let source = sandbox.big_file("source", 3_000_000);
    let target = remote.at(sandbox.path("there"));
    assert!(target.to_string_lossy().starts_with("[::1]:"));
    let summary = remote.haul(&sandbox).args(["--json", "source"]).arg(target).run().succeeds().summary();
    assert_eq!(summary["transport"]["kind"], "tcp", "{summary}");
    remote.haul(&sandbox).arg(remote.at(sandbox.path("there"))).arg("back").run().succeeds();
    compare(&source, &sandbox.path("back")).unwrap();
}

/// Pushes a tree and pulls it back with these options; the summary of the push.
fn there_and_back(options: &[&str]) -> serde_json::Value {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.tree("source");
    sandbox.big_file("source/bigger", 20_000_000);
    remote.there_and_back(&sandbox, &source, options)
}

#[test]
fn any_number_of_streams_will_do() {
    for streams in [1, 4, 16] {
        let summary = there_and_back(&["-s", &streams.to_string()]);
        assert_eq!(summary["streams"], streams, "{summary}");
        assert_eq!(summary["transport"]["kind"], "tcp", "{summary}");
    }
}

#[test]
fn each_cipher_carries_everything() {
    for cipher in ["aes-256-gcm", "aes-128-gcm", "chacha20-poly1305"] {
        let summary = there_and_back(&["--cipher", cipher]);
        assert_eq!(summary["cipher"], cipher, "{summary}");
    }
}

#[test]
fn without_encryption_data_is_still_authenticated() {
    let summary = there_and_back(&["--no-encrypt"]);
    assert_eq!(summary["cipher"], "authenticate-only", "{summary}");
}

#[test]
fn the_target_can_hash_too() {
    there_and_back(&["--verify", "memory"]);
}

#[test]
fn the_target_can_read_back() {
    let summary = there_and_back(&["--verify", "disk"]);
    let read = summary["read_back"].as_object().unwrap_or_else(|| panic!("{summary}"));
    let bytes: u64 = read.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(Some(bytes), summary["bytes"].as_u64(), "{summary}");
}

#[test]
fn a_window_can_be_forced() {
    there_and_back(&["-w", "256k"]);
}

#[test]
fn the_remote_command_can_be_given() {
    let sandbox = Sandbox::new();
    let remote = Remote::without_haul(&sandbox, Options::default());
    let source = sandbox.big_file("source", 1_000_000);
    let tool = sandbox.path("odd place/haul");
    fs::create_dir_all(sandbox.path("odd place")).unwrap();
    fs::copy(haul_e2e::haul_binary(), &tool).unwrap();
    let options = remote.sshd().ssh_options();
    let options: Vec<_> = options.iter().map(|option| format!("-o {option}")).collect();
    let command = |words: &str| format!("ssh {words} -p {} {}", remote.sshd().port(), options.join(" "));
    // ssh passes its words to a remote shell: the path is quoted for that one.
    let command = format!("{} %H \"'{}'\"", command("%I -l %U"), tool.display());

    let push = sandbox.haul(["-i"]).arg(remote.sshd().identity()).args(["--target-command", &command]).arg("source");
    push.arg(remote.at(sandbox.path("there"))).run().succeeds();
    let pull = sandbox.haul(["-i"]).arg(remote.sshd().identity()).args(["--source-command", &command]);
    pull.arg(remote.at(sandbox.path("there"))).arg("back").run().succeeds();
    compare(&source, &sandbox.path("back")).unwrap();
    assert!(!remote.home().join(".cache").exists(), "-S and -T never put haul anywhere");
}

#[test]
fn a_missing_command_is_named() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", "content");
    let target = remote.at(sandbox.path("target"));
    let gone = sandbox.haul(["--target-command", "/no/such/ssh %H haul", "source"]).arg(&target).run().ends(3);
    gone.says(["/no/such/ssh"]);
    let ssh = format!("ssh -F {} %H /no/such/haul", remote.sshd().ssh_config().display());
    let gone = sandbox.haul(["--target-command", &ssh, "source"]).arg(&target).run().ends(3);
    gone.says(["127.0.0.1", "/no/such/haul"]);
}

/// An attempt to push a file to where nobody lets us in.
fn refused(run: ProgramRun, phrases: &[&str]) {
    run.ends(3).says(phrases.iter().copied());
}

#[test]
fn a_missing_host_is_named() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    refused(sandbox.haul(["source", "no-such-host.invalid:target"]).run(), &["no-such-host.invalid", "resolve"]);
    let remote = Remote::new(&sandbox);
    let target = remote.at(sandbox.path("target"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    refused(sandbox.haul(["--ssh-port", &closed, "source"]).arg(&target).run(), &["127.0.0.1", "refused", &closed]);
}

#[test]
fn a_rejected_key_is_reported_with_the_remedy() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", "content");
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(sandbox.path("key")).status();
    assert!(made.expect("ssh-keygen").success());
    let run = sandbox.haul(["-i", "key"]).args(remote.sshd().haul_args().into_iter().filter({
        let right = remote.sshd().identity().display().to_string();
        move |word| *word != right && word != "--idfile"
    }));
    let run = run.arg("source").arg(remote.at(sandbox.path("target"))).run();
    refused(run, &["127.0.0.1", "permission denied", "-i"]);
    assert!(!sandbox.path("target").exists());
}

#[test]
fn an_unknown_host_and_a_changed_key_are_reported() {
    let sandbox = Sandbox::new();
    let (remote, other) = (Remote::new(&sandbox), Remote::new(&sandbox));
    sandbox.file("source", "content");
    let target = remote.at(sandbox.path("target"));
    // ssh takes the first value of an option.
    let with_known_hosts = |file: String| {
        let option = format!("UserKnownHostsFile={file}");
        sandbox.haul(["--ssh-option", &option]).args(remote.sshd().haul_args()).arg("source").arg(&target).run()
    };
    refused(with_known_hosts("/dev/null".to_owned()), &["127.0.0.1", "host key"]);

    let foreign = fs::read_to_string(other.sshd().known_hosts()).unwrap();
    let key = foreign.split_once(' ').expect("host and key").1;
    let changed = sandbox.file("changed", format!("[127.0.0.1]:{} {key}", remote.sshd().port()));
    refused(with_known_hosts(changed.display().to_string()), &["127.0.0.1", "host key"]);
    assert!(!sandbox.path("target").exists());
}

#[test]
fn a_missing_path_is_named_with_its_host() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", "content");
    let pull = remote.haul(&sandbox).arg(remote.at("/no/such/file")).arg("target").run();
    let push = remote.haul(&sandbox).arg("source").arg(remote.at("/no/such/directory/target")).run();
    for (run, path) in [(pull, "/no/such/file"), (push, "/no/such/directory")] {
        let run = run.says(["127.0.0.1", path]);
        assert!(matches!(run.status, Some(1 | 2)), "{}", run.account());
    }
    assert!(!sandbox.path("target").exists());
    remote.is_left_clean();
}

#[test]
fn an_option_like_word_is_no_host() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    sandbox.haul(["--", "source", "-oProxyCommand=touch injected:x"]).run().ends(2);
    sandbox.haul(["source", "-l@host:x"]).run().ends(2);
    assert!(!sandbox.path("injected").exists());
}

#[test]
fn a_silent_port_ends_the_login() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let began = Instant::now();
    let run = sandbox.haul(["--ssh-port", &port, "--silence", "3s", "source", "127.0.0.1:/x"]).run();
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    run.ends(3).says(["connecting to 127.0.0.1: no answer within 3 s"]);
}

#[test]
fn another_configuration_of_ssh_is_used_on_a_host_without_haul() {
    let sandbox = Sandbox::new();
    let remote = Remote::without_haul(&sandbox, Options::default());
    sandbox.file("source", "content");
    let (config, target) = (remote.sshd().ssh_config(), sandbox.path("target"));
    let to = format!("127.0.0.1:{}", target.display());
    sandbox.haul(["--ssh-config"]).arg(&config).args(["source", &to]).run().succeeds().says(["installed haul"]);
    let rsh = format!("ssh -F {}", config.display());
    sandbox.haul(["-f", "--rsh", &rsh, "source", &to]).run().succeeds();
    assert_eq!(contents(&target), b"content");
}

#[test]
fn settings_of_ssh_for_a_login_by_hand_do_no_harm() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", "content");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let forward = format!("LocalForward {} 127.0.0.1:1\nExitOnForwardFailure yes", taken.local_addr().unwrap());
    let settings = [
        "RemoteCommand tmux attach\nRequestTTY force",
        "SessionType none",
        "StdinNull yes",
        "ForkAfterAuthentication yes",
        "LogLevel QUIET",
        forward.as_str(),
    ];
    let usual = fs::read_to_string(remote.sshd().ssh_config()).unwrap();
    for (at, setting) in settings.into_iter().enumerate() {
        let config = sandbox.file("config", format!("{setting}\n{usual}"));
        let target = sandbox.path(format!("target{at}"));
        let run = sandbox.haul(["--ssh-config"]).arg(config).arg("source").arg(remote.at(&target)).run();
        run.succeeds();
        assert_eq!(contents(&target), b"content", "{setting}");
    }
    remote.is_left_clean();
}
