//! One login for many commands: haul's own ssh masters, and the user's.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_e2e::{Haul, Options, ProgramRun, Remote, Sandbox, Terminal, contents, eventually, shell};
use rustix::process::{Pid, Signal, kill_process};

/// A host, and a runtime directory of who runs haul.
struct Place {
    sandbox: Sandbox,
    remote: Remote,
}

impl Place {
    fn new() -> Self {
        Self::with("")
    }

    /// A host with these lines of sshd_config.
    fn with(extra_config: &str) -> Self {
        let sandbox = Sandbox::new();
        let options = Options { extra_config: extra_config.to_owned(), ..Options::default() };
        let remote = Remote::with_haul(&sandbox, options);
        fs::DirBuilder::new().mode(0o700).create(sandbox.path("run")).unwrap();
        sandbox.file("source", "content");
        Self { sandbox, remote }
    }

    fn runtime(&self) -> PathBuf {
        self.sandbox.path("run")
    }

    /// A copy of `source` to a new name on the host.
    fn push(&self, options: &[&str], name: &str) -> Haul<'_> {
        let push = self.remote.haul(&self.sandbox).env("XDG_RUNTIME_DIR", self.runtime()).args(options);
        push.arg("source").arg(self.remote.at(self.sandbox.path(name)))
    }

    fn logins(&self) -> usize {
        self.remote.sshd().log().matches("Accepted publickey").count()
    }

    /// The sockets of haul's masters.
    fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.runtime().join("haul")).into_iter().flatten();
        let entries = entries.map(|entry| entry.unwrap());
        entries.filter(|entry| entry.file_type().unwrap().is_socket()).map(|entry| entry.path()).collect()
    }

    /// The only master's process.
    #[track_caller]
    fn master(&self) -> Pid {
        let sockets = self.sockets();
        let [socket] = &sockets[..] else { panic!("{sockets:?}") };
        let masters = processes_with(&format!("{} [mux]", socket.display()));
        let [master] = masters[..] else { panic!("{masters:?}") };
        master
    }
}

/// The processes whose command line contains this.
fn processes_with(text: &str) -> Vec<Pid> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_text = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(has_text).filter_map(Pid::from_raw).collect()
}

#[test]
fn commands_within_a_minute_share_a_login() {
    let place = Place::new();
    for name in ["one", "two", "three"] {
        let summary = place.push(&["--json"], name).run().succeeds().summary();
        assert_eq!(summary["transport"]["kind"], "tcp", "{summary}");
        assert_eq!(contents(&place.sandbox.path(name)), b"content");
    }
    assert_eq!((place.logins(), place.sockets().len()), (1, 1));
    let read = |options: &[&str]| {
        let haul = place.sandbox.haul(["read"]).env("XDG_RUNTIME_DIR", place.runtime()).args(options);
        let haul = haul.args(place.remote.sshd().haul_args()).arg(place.remote.at(place.sandbox.path("one")));
        assert_eq!(haul.run().succeeds().stdout, "content");
    };
    read(&["--range", "0+7"]);
    assert_eq!(place.logins(), 1);
    // Data through ssh has a connection of its own.
    read(&[]);
    place.push(&["--transport", "ssh"], "four").run().succeeds();
    place.push(&["--no-ssh-reuse"], "five").run().succeeds();
    place.push(&["-o", "ControlPath=none"], "six").run().succeeds();
    assert_eq!((place.logins(), place.sockets().len()), (5, 1));
    // Without its connection, a master ends.
    place.remote.sshd().end_sessions();
    eventually("the master ends", || place.sockets().is_empty());
}

#[test]
fn a_configuration_file_can_ask_for_a_login_each() {
    let place = Place::new();
    place.sandbox.file("options.toml", "no-ssh-reuse = true\n");
    for name in ["one", "two"] {
        place.push(&["--config", "options.toml"], name).run().succeeds();
    }
    assert_eq!((place.logins(), place.sockets().len()), (2, 0));
}

#[test]
fn a_master_holds_nothing_of_its_caller() {
    let place = Place::new();
    let target = place.remote.at(place.sandbox.path("target")).into_string().unwrap();
    let arguments: Vec<_> = place.remote.sshd().haul_args().iter().map(|word| format!("'{word}'")).collect();
    let script = format!("\"$0\" {} source {target} 9>&1 8</dev/zero 2>&1 | cat; echo over", arguments.join(" "));
    let run = shell(&place.sandbox, &script).env("XDG_RUNTIME_DIR", place.runtime()).run().succeeds();
    assert!(run.stdout.ends_with("over\n"), "{}", run.account());
    let master = place.master().as_raw_nonzero();
    let is_its_own = |to: &Path| to == Path::new("/dev/null") || to.to_string_lossy().starts_with("socket:");
    // ssh closes the pipes of an ended session a moment later.
    eventually("descriptors of its own alone", || {
        let open = fs::read_dir(format!("/proc/{master}/fd")).unwrap().flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok()).all(|to| is_its_own(&to))
    });
}

#[test]
fn a_stale_socket_is_replaced() {
    let place = Place::new();
    place.push(&[], "one").run().succeeds();
    let socket = place.sockets();
    kill_process(place.master(), Signal::KILL).unwrap();
    eventually("the login ends", || place.remote.sshd().session_pids().is_empty());
    assert_eq!(place.sockets(), socket, "it stays");
    place.push(&[], "two").run().succeeds();
    place.push(&[], "three").run().succeeds();
    assert_eq!((place.logins(), place.sockets()), (2, socket));
}

#[test]
fn a_planted_directory_is_not_used() {
    let place = Place::new();
    let elsewhere = place.sandbox.dir("elsewhere");
    symlink(&elsewhere, place.runtime().join("haul")).unwrap();
    for name in ["one", "two"] {
        place.push(&[], name).run().succeeds();
    }
    assert_eq!((place.logins(), fs::read_dir(elsewhere).unwrap().count()), (2, 0));
}

#[test]
fn twenty_commands_at_once_succeed_and_leave_one_master() {
    // It refuses most sessions, and then ssh logs in by itself.
    let place = Place::with("MaxSessions 2");
    let run_all = |round: &str| {
        let names: Vec<_> = (0..20).map(|number| format!("{round}{number}")).collect();
        let running: Vec<_> = names.iter().map(|name| place.push(&["-q"], name).start()).collect();
        running.into_iter().for_each(|running| drop(ProgramRun::of(running).succeeds()));
        names.iter().for_each(|name| assert_eq!(contents(&place.sandbox.path(name)), b"content"));
        assert_eq!(place.sockets().len(), 1);
    };
    run_all("first");
    run_all("second");
    assert!(place.logins() < 40);
}

#[test]
fn a_caller_without_a_home_shares_a_login_too() {
    let place = Place::new();
    let target = |name: &str| place.remote.at(place.sandbox.path(name)).into_string().unwrap();
    let arguments: Vec<_> = place.remote.sshd().haul_args().iter().map(|word| format!("'{word}'")).collect();
    let copy = |name: &str| format!("env -u HOME \"$0\" {} source {}", arguments.join(" "), target(name));
    let script = format!("{} && {}", copy("one"), copy("two"));
    shell(&place.sandbox, &script).env("XDG_RUNTIME_DIR", place.runtime()).run().succeeds();
    assert_eq!(place.logins(), 1);
}

#[test]
fn the_users_master_is_used_and_left_alone() {
    let place = Place::new();
    let socket = place.runtime().join("users");
    let usual = fs::read_to_string(place.remote.sshd().ssh_config()).unwrap();
    let config = place.sandbox.file("config", format!("{usual}  ControlPath {}\n", socket.display()));
    let ssh = |options: &[&str]| {
        let mut command = Command::new("ssh");
        let status = command.arg("-F").arg(&config).args(options).arg("127.0.0.1").status().unwrap();
        assert!(status.success(), "{options:?}");
    };
    ssh(&["-f", "-N", "-M"]);
    let target = place.remote.at(place.sandbox.path("target"));
    let push = || {
        let haul = place.sandbox.haul(["--ssh-config"]).env("XDG_RUNTIME_DIR", place.runtime()).arg(&config);
        haul.args(["-f", "source"]).arg(&target).run()
    };
    push().succeeds();
    assert_eq!((place.logins(), place.sockets().len()), (1, 0));
    ssh(&["-O", "check"]);
    // One that hangs is named within seconds.
    let master = processes_with(&format!("{}\0-f\0-N\0-M\0", config.display()))[0];
    kill_process(master, Signal::STOP).unwrap();
    let run = push().ends(3).says(["the ssh master at", "does not answer", "ControlPath=none"]);
    assert!(run.elapsed.as_secs() < 20, "{}", run.account());
    kill_process(master, Signal::CONT).unwrap();
    ssh(&["-O", "exit"]);
}

#[test]
fn a_question_at_the_first_login_is_the_last() {
    let place = Place::new();
    let key = place.sandbox.path("key");
    fs::copy(place.remote.sshd().identity(), &key).unwrap();
    let change = Command::new("ssh-keygen").args(["-q", "-p", "-N", "a secret", "-f"]).arg(&key).status().unwrap();
    assert!(change.success());
    let push = |name: &str| {
        let haul = place.sandbox.haul(["-o", "BatchMode=no", "-i", "key"]).env("XDG_RUNTIME_DIR", place.runtime());
        let given = place.remote.sshd().haul_args();
        let identity = place.remote.sshd().identity();
        let given = given.into_iter().filter(move |word| word != "--idfile" && Path::new(word) != identity);
        haul.args(given).arg("source").arg(place.remote.at(place.sandbox.path(name)))
    };
    let first = Terminal::start(push("one"), 200, 20);
    first.shows("passphrase");
    first.types("a secret\r");
    first.end().succeeds();
    push("two").run().succeeds();
    // Data through ssh would log in anew, but nobody is asked twice.
    push("three").args(["--transport", "ssh"]).run().succeeds();
    assert_eq!(place.logins(), 1);
}

#[test]
fn an_agent_that_hangs_is_named() {
    let place = Place::new();
    let agent = place.sandbox.path("agent");
    let silent = UnixListener::bind(&agent).unwrap();
    let named = format!("IdentityAgent={}", agent.display());
    // The first of two settings counts.
    let haul = place.sandbox.haul(["-o", &named]).args(place.remote.sshd().haul_args());
    let running = haul.arg("source").arg(place.remote.at(place.sandbox.path("target"))).start();
    eventually("it is named", || running.stderr_so_far().contains("does not answer"));
    drop(silent);
    ProgramRun::of(running).succeeds().says(["the ssh agent at", "IdentityAgent=none"]);
}
