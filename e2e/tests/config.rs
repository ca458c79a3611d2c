//! Configuration files: their effect on a copy, and their precedence.

use std::fs::{self, Permissions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{PermissionsExt, symlink};

use haul_e2e::{Haul, Options, Remote, Sandbox, contents, give_to_user, haul_binary, is_root_or_skip, shell};

/// The user's file.
const USERS: &str = "home/.config/haul/config.toml";

/// `haul config`'s output, without defaults.
const SHOWN: &str = r#"$ haul config --config options.toml
options.toml

streams          2                    options.toml:1
xfrrate          1m                   options.toml:3
no-deploy        on                   options.toml:2
other options have their defaults: haul config --all lists them

$ haul config --config options.toml --preserve --bwlimit 5 --no-deploy=default ann@db1
options.toml

preserve         on                   command line
streams          4                    options.toml:6 [host."db*"]
bwlimit          5                    command line
no-deploy        off                  command line
other options have their defaults: haul config --all lists them

ignored: options.toml:3: --xfrrate cannot be used with --bwlimit

$ haul config --config options.toml -vv -4 --json db1
{"file":"options.toml","host":"db*","line":6,"option":"streams","origin":"file","values":["4"]}
{"file":"options.toml","host":null,"line":3,"option":"xfrrate","origin":"file","values":["1m"]}
{"option":"ipv4","origin":"command line","values":["cst"]}
{"file":"options.toml","host":null,"line":2,"option":"no-deploy","origin":"file","values":[true]}
{"option":"verbose","origin":"command line","values":[true,true]}"#;

/// Messages about invalid files.
const WRONG: &str = "\
haul: SANDBOX/home/.config/haul/config.toml:3: unknown option streems
      hint: did you mean: streams
haul: SANDBOX/home/.config/haul/config.toml:1: --streams 999: must be a whole number from 1 to 256
haul: SANDBOX/home/.config/haul/config.toml:1: force: only valid on the command line
      hint: haul help config lists these options
haul: SANDBOX/home/.config/haul/config.toml: others can write it and could make haul start commands
      hint: chmod go-w SANDBOX/home/.config/haul/config.toml
haul: --config absent: no such file
haul: no target given for target
      hint: --config took source as its FILE
haul: source:1: key with no value, expected `=`
      hint: write OPTION = VALUE, with text in quotes: haul help config
haul: SANDBOX/home/.config/haul/config.toml:1: invalid boolean, expected `false`
      hint: write OPTION = VALUE, with text in quotes: haul help config
haul: SANDBOX/home/.config/haul/config.toml:1: invalid boolean, expected `false`
      hint: write OPTION = VALUE, with text in quotes: haul help config
";

/// Options to log in at a host, as lines of a file; the command line then has none of them.
fn login(remote: &Remote) -> String {
    let words = remote.sshd().haul_args();
    let of = |option: &str| {
        let pairs = words.chunks(2).filter(|pair| pair[0] == option).map(|pair| format!("{:?}", pair[1]));
        pairs.collect::<Vec<_>>().join(", ")
    };
    format!("ssh-port = {}\nidfile = {}\nssh-option = [{}]\n", of("--ssh-port"), of("--idfile"), of("--ssh-option"))
}

#[test]
fn profiles_reach_a_copy_by_its_host() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("source", 3_000_000);
    let text = format!(
        "streams = 2\ncipher = \"aes-256-gcm\"\n[host.\"127.*\"]\nstreams = 3\nxfrrate = \"64m\"\n{}\n[host.other]\nstreams = 9\n",
        login(&remote)
    );
    sandbox.file(USERS, text);
    let there = remote.at(sandbox.dir("there"));
    let summary = |options: &[&str]| {
        sandbox.haul(["--json", "-f", "source"]).arg(&there).args(options).run().succeeds().summary()
    };
    let push = summary(&[]);
    assert_eq!((push["streams"].as_u64(), push["cipher"].as_str()), (Some(3), Some("aes-256-gcm")), "{push}");
    assert_eq!(push["rate_limit_bytes_per_s"].as_u64(), Some(64 << 20), "{push}");
    assert_eq!(contents(&sandbox.path("there/source")).len(), 3_000_000);

    // The command line takes precedence, and revokes the file's settings.
    fs::remove_file(sandbox.path("there/source")).unwrap();
    let typed = summary(&["-s", "1", "--xfrrate=default", "--cipher", "chacha20-poly1305"]);
    assert_eq!((typed["streams"].as_u64(), typed["cipher"].as_str()), (Some(1), Some("chacha20-poly1305")), "{typed}");
    assert!(typed["rate_limit_bytes_per_s"].is_null(), "{typed}");
    fs::remove_file(sandbox.path("there/source")).unwrap();
    let other = summary(&["--bwlimit", "100m", "--no-encrypt"]);
    assert_eq!(other["rate_limit_bytes_per_s"].as_u64(), Some(100 << 20), "{other}");

    // A pull and a comparison take the same host's.
    let pull = sandbox.haul(["--json"]).arg(remote.at(sandbox.path("source"))).arg("back").run().succeeds().summary();
    assert_eq!(pull["streams"].as_u64(), Some(3), "{pull}");
    sandbox.haul(["verify", "source"]).arg(remote.at(sandbox.path("there/source"))).run().succeeds();

    // Settings not in effect there: from another file, or none.
    let words = remote.sshd().haul_args();
    let named = sandbox.file("named", "streams = 4\n");
    let run = |file: &std::path::Path| {
        let haul =
            sandbox.haul(&words).args(["--json", "-f", "--config"]).arg(file).arg(remote.at(sandbox.path("source")));
        fs::remove_file(sandbox.path("back")).unwrap();
        haul.arg("back").run().succeeds().summary()
    };
    let other_file = run(&named);
    assert_eq!(other_file["streams"].as_u64(), Some(4), "{other_file}");
    assert!(run("/dev/null".as_ref())["rate_limit_bytes_per_s"].is_null());
}

#[test]
fn each_of_two_hosts_uses_its_own_login_section() {
    let sandbox = Sandbox::new();
    let host = |last| Options { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), ..Options::default() };
    let (a, b) = (Remote::with_haul(&sandbox, host(1)), Remote::with_haul(&sandbox, host(2)));
    assert_ne!(a.sshd().port(), b.sshd().port());
    let (login_a, login_b) = (login(&a), login(&b));
    sandbox.file(USERS, format!("[host.\"127.0.0.1\"]\n{login_a}\n[host.\"127.0.0.2\"]\n{login_b}\n"));
    sandbox.file("source", "from a to b");
    let (from, to) = (a.at(sandbox.path("source")), b.at(sandbox.path("target")));
    sandbox.haul([&from, &to]).run().succeeds();
    assert_eq!(contents(&sandbox.path("target")), b"from a to b");
}

#[test]
fn user_and_system_files_are_found_and_the_users_takes_precedence() {
    if !is_root_or_skip("a system's file") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("etc/haul/config.toml", "streams = 3\ncpus = 0\n");
    sandbox.file("xdg/haul/config.toml", "streams = 2\n");
    let script = format!("mount --bind {} /etc && exec \"$0\" config --json", sandbox.path("etc").display());
    let in_force = |xdg: &str| {
        let words = ["--mount", "--propagation", "private", "bash", "-c", &script].map(str::to_owned);
        let words: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        let run = shell(&sandbox, &format!("exec unshare {} \"$0\"", words.join(" ")));
        let run = run.env("XDG_CONFIG_HOME", sandbox.path(xdg)).run().succeeds();
        let of = |option: &str| {
            let lines = run.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let line = lines.into_iter().find(|line| line["option"] == option).unwrap();
            (line["values"][0].as_str().map(str::to_owned), line["file"].as_str().unwrap_or_default().to_owned())
        };
        (of("streams"), of("cpus"))
    };
    let system = || "/etc/haul/config.toml".to_owned();
    let users = sandbox.path("xdg/haul/config.toml").display().to_string();
    assert_eq!(in_force("xdg"), ((Some("2".into()), users), (Some("0".into()), system())));
    assert_eq!(in_force("none"), ((Some("3".into()), system()), (Some("0".into()), system())));
}

#[test]
fn effective_settings_are_shown_with_their_origin() {
    let sandbox = Sandbox::new();
    sandbox.file("options.toml", "streams = 2\nno-deploy = true\nxfrrate = \"1m\"\n\n[host.\"db*\"]\nstreams = 4\n");
    let shown = |words: &str| {
        let run = shell(&sandbox, &format!("exec \"$0\" config {words}")).run().succeeds();
        let told = run.stdout.lines().filter(|line| !line.contains("\"default\""));
        format!("$ haul config {words}\n{}", told.collect::<Vec<_>>().join("\n"))
    };
    let all = [
        "--config options.toml",
        "--config options.toml --preserve --bwlimit 5 --no-deploy=default ann@db1",
        "--config options.toml -vv -4 --json db1",
    ];
    assert_eq!(all.map(shown).join("\n\n"), SHOWN);
    sandbox.haul(["config", "-s", "999"]).run().ends(2).says(["--streams 999"]);
    let run = sandbox.haul(["config", "--all", "--config", "/dev/null"]).run().succeeds();
    let silence = run.stdout.lines().find(|line| line.starts_with("silence")).unwrap();
    assert_eq!(silence.split_whitespace().collect::<Vec<_>>(), ["silence", "13s", "default"], "{}", run.account());
}

#[test]
fn an_invalid_file_ends_the_command_with_its_line() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    let file = sandbox.file(USERS, "streams = 2\n");
    let said = |text: &str, mode: u32, words: &[&str]| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let run = sandbox.haul(words).run().ends(2);
        assert!(!sandbox.path("target").exists());
        run.stderr.replace(&*sandbox.path("").to_string_lossy(), "SANDBOX/")
    };
    let copy = ["source", "target"];
    let all = [
        said("\n[host.\"db*\"]\nstreems = 4\n", 0o600, &copy),
        said("streams = 999\n", 0o600, &copy),
        said("force = true\n", 0o600, &copy),
        said("streams = 4\n", 0o622, &copy),
        said("streams = 4\n", 0o600, &["--config", "absent", "source", "target"]),
        said("streams = 4\n", 0o600, &["--config", "source", "target"]),
        said("streams = 4\n", 0o600, &["--config", "source", "source", "target"]),
        said("streams = four\n", 0o600, &["config"]),
        said("streams = four\n", 0o600, &["status", "."]),
    ];
    assert_eq!(all.concat(), WRONG);
    // Commands that copy nothing read no configuration.
    sandbox.haul(["--version"]).run().succeeds();
    sandbox.haul(["--help"]).run().succeeds();
}

#[test]
fn a_closed_home_is_foreign_and_a_closed_file_is_not() {
    let sandbox = Sandbox::new();
    let file = sandbox.file(USERS, "streams = 3\n");
    let (closed, place) = (sandbox.dir("home/.config"), sandbox.dir("place"));
    give_to_user(&place);
    sandbox.file("source", "content");
    let copy = || sandbox.haul_of_user(["source", "place"]);
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    copy().run().ends(2).says(["config.toml", "permission"]);
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    copy().run().succeeds();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn other_commands_take_their_known_settings() {
    let sandbox = Sandbox::new();
    sandbox.file(USERS, "json = true\nstreams = 3\n");
    let run = sandbox.haul(["status", "."]).run().succeeds();
    assert!(run.stdout.starts_with('{'), "{}", run.account());
    let demo = sandbox.haul(["demo", "--size", "1m"]).env("TMPDIR", sandbox.path("")).run().succeeds().summary();
    assert_eq!(demo["streams"].as_u64(), Some(3), "{demo}");
    let run = sandbox.haul(["status", "--json=default", "."]).run().succeeds();
    assert!(!run.stdout.starts_with('{'), "{}", run.account());
}

#[test]
fn the_far_end_reads_no_configuration() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let wrong = remote.home().join(".config/haul/config.toml");
    fs::create_dir_all(wrong.parent().unwrap()).unwrap();
    fs::write(wrong, "this is wrong").unwrap();
    sandbox.file("source", "content");
    remote.haul(&sandbox).arg("source").arg(remote.at(sandbox.path("target"))).run().succeeds();
}

#[test]
fn under_bbcps_name_a_file_has_bbcps_form() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    symlink(haul_binary(), sandbox.dir("bin").join("bbcp")).unwrap();
    sandbox.file("source", "content");
    let config = remote.sshd().ssh_config();
    let haul = sandbox.path("remote-bin/haul");
    let options = format!("# ours\n-T ssh -F {} -x -a %I %H {}\n-v\n", config.display(), haul.display());
    let named = sandbox.file("options", &options);
    // haul's own file has no effect here.
    sandbox.file(USERS, "this is wrong\n");
    let there = remote.at(sandbox.path("target")).to_string_lossy().into_owned();
    let bbcp = |words: &str| shell(&sandbox, &format!("exec bin/bbcp {words}"));
    let copies = |haul: Haul<'_>| {
        let run = haul.run().succeeds();
        assert!(run.stderr.contains("target created; 7 bytes"), "{}", run.account());
        fs::remove_file(sandbox.path("target")).unwrap();
    };
    copies(bbcp(&format!("-C options source {there}")));
    copies(bbcp(&format!("source {there}")).env("bbcp_CONFIGFN", &named));
    sandbox.file("home/.bbcp.cf", &options);
    copies(bbcp(&format!("source {there}")));
    // Later options take precedence.
    let refused = bbcp(&format!("-C options -T false source {there}")).run();
    assert_ne!(refused.status, Some(0), "{}", refused.account());
    copies(bbcp(&format!("-T false -C options source {there}")));
    sandbox.file("home/.bbcp.cf", "-v\n-s 65 streams\n");
    bbcp("source target").run().ends(1).says([".bbcp.cf:2: -s 65 streams", "one option"]);
}
