//! How haul gets to run at the other end: accounts that have none, noisy shells, odd shells, homes that are no good.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use haul_e2e::{Options, ProgramRun, Remote, Sandbox, compare, contents, is_root_or_skip, stamp};

/// A sandbox, a host without haul, and a source to push to it.
fn bare_host(extra_config: &str) -> (Sandbox, Remote) {
    let sandbox = Sandbox::new();
    let options = Options { extra_config: extra_config.to_owned(), ..Options::default() };
    let remote = Remote::without_haul(&sandbox, options);
    sandbox.tree("source");
    (sandbox, remote)
}

fn push(sandbox: &Sandbox, remote: &Remote, target: &str) -> ProgramRun {
    remote.haul(sandbox).args(["-r", "source"]).arg(remote.at(sandbox.path(target))).run()
}

/// The copies of haul in the account's cache.
fn placed(remote: &Remote) -> Vec<PathBuf> {
    let Ok(versions) = fs::read_dir(remote.home().join(".cache/haul")) else { return Vec::new() };
    versions.flatten().map(|version| version.path().join("haul")).filter(|path| path.exists()).collect()
}

#[test]
fn an_account_without_haul_gets_one() {
    let (sandbox, remote) = bare_host("");
    let first = push(&sandbox, &remote, "first").succeeds().says(["127.0.0.1", ".cache/haul"]);
    compare(&sandbox.path("source"), &sandbox.path("first")).unwrap();
    let places = placed(&remote);
    assert_eq!(places.len(), 1, "{}", first.account());
    assert_eq!(first.stderr.matches(".cache/haul").count(), 1, "said in one line\n{}", first.account());
    assert!(contents(&places[0]) == contents(&haul_e2e::haul_binary()), "it is another program");
    let beside = fs::read_dir(places[0].parent().expect("a directory")).unwrap().count();
    assert_eq!(beside, 1, "something was left beside it");

    let before = stamp(&places[0]);
    push(&sandbox, &remote, "second").succeeds().does_not_say(".cache/haul");
    compare(&sandbox.path("source"), &sandbox.path("second")).unwrap();
    assert_eq!(stamp(&places[0]), before, "it was put there again");
    remote.is_left_clean();
}

#[test]
fn an_account_without_haul_can_be_pulled_from() {
    let (sandbox, remote) = bare_host("");
    let run = remote.haul(&sandbox).arg("-r").arg(remote.at(sandbox.path("source"))).arg("back").run();
    run.succeeds().says([".cache/haul"]);
    compare(&sandbox.path("source"), &sandbox.path("back")).unwrap();
}

#[test]
fn deployment_can_be_forbidden() {
    let (sandbox, remote) = bare_host("");
    let run = remote.haul(&sandbox).args(["--no-deploy", "-r", "source"]).arg(remote.at(sandbox.path("there"))).run();
    run.ends(3).says(["127.0.0.1", "no-deploy", "--target-command"]);
    assert!(!remote.home().join(".cache").exists());
    assert!(!sandbox.path("there").exists());
}

#[test]
fn another_version_in_the_path_is_not_used() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    let fake =
        "#!/bin/sh\ncase \"$*\" in *--identify*) echo 'haul 0.0.1 protocol 0';; *) echo used >>\"$HOME/used\";; esac\n";
    let bin = sandbox.script("old/haul", fake);
    let path = format!("{}:/usr/bin:/bin", bin.parent().expect("a directory").display());
    let remote = Remote::with_path(&sandbox, Options::default(), &path);
    push(&sandbox, &remote, "there").succeeds().says([".cache/haul"]);
    compare(&sandbox.path("source"), &sandbox.path("there")).unwrap();
    assert!(!remote.home().join("used").exists(), "the old one was started as a worker");
    assert_eq!(contents(&bin), fake.as_bytes());
}

/// Replaces an executable that a worker may still be running.
fn replace(place: &Path, content: &[u8]) {
    let permissions = fs::metadata(place).unwrap().permissions();
    fs::remove_file(place).unwrap();
    fs::write(place, content).unwrap();
    fs::set_permissions(place, permissions).unwrap();
}

#[test]
fn a_damaged_copy_is_not_used() {
    let (sandbox, remote) = bare_host("");
    push(&sandbox, &remote, "first").succeeds();
    let place = placed(&remote).remove(0);
    let whole = contents(&place);
    // A truncated copy, as after a full disk; an empty file; a program that succeeds at everything.
    for (target, content) in [("half", &whole[..whole.len() / 2]), ("empty", b""), ("yes", b"#!/bin/sh\nexit 0\n")] {
        replace(&place, content);
        push(&sandbox, &remote, target).succeeds().says([".cache/haul"]);
        compare(&sandbox.path("source"), &sandbox.path(target)).unwrap();
        assert!(contents(&place) == whole, "{target}");
    }
}

#[test]
fn an_executable_planted_by_another_user_is_not_started() {
    if !is_root_or_skip("files of another user") {
        return;
    }
    let (sandbox, remote) = bare_host("");
    push(&sandbox, &remote, "first").succeeds();
    let place = placed(&remote).remove(0);
    let cache = remote.home().join(".cache");
    replace(&place, b"#!/bin/sh\necho \"$*\" >>\"$HOME/ran\"\n");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    for path in [&cache.join("haul"), place.parent().expect("a directory"), &place] {
        chown(path, Some(65534), Some(65534)).unwrap();
    }
    push(&sandbox, &remote, "second").succeeds().says(["for this copy alone", "others can write to", ".cache"]);
    compare(&sandbox.path("source"), &sandbox.path("second")).unwrap();
    assert!(!remote.home().join("ran").exists(), "the planted script ran");
    remote.is_left_clean();
}

#[test]
fn noise_from_the_login_shell_is_no_obstacle() {
    let (sandbox, remote) = bare_host("");
    let banner = sandbox.file("banner", "Authorised use only.\n\nHAUL-WORKER is not for you\n");
    let noisy = "echo Welcome to the machine\nprintf 'no line end'\nprintf '\\377\\000\\001binary'\necho on stderr >&2\n\
        printf '\\nHAUL-ABSENT Linux x86_64 not really'\nread -r -t 0.2 -n 100000 eaten\n";
    fs::write(remote.home().join(".bashrc"), format!("{noisy}cd\n")).unwrap();
    push(&sandbox, &remote, "deployed").succeeds();
    push(&sandbox, &remote, "again").succeeds();
    compare(&sandbox.path("source"), &sandbox.path("deployed")).unwrap();
    compare(&sandbox.path("source"), &sandbox.path("again")).unwrap();

    let extra_config = format!("Banner {}", banner.display());
    let with_banner = Remote::with_haul(&sandbox, Options { extra_config, ..Options::default() });
    push(&sandbox, &with_banner, "banner too").succeeds();
    compare(&sandbox.path("source"), &sandbox.path("banner too")).unwrap();
}

/// A host with another login shell for its account: sshd's own shell only starts that one.
fn through(shell: &str) {
    let program = shell.split(' ').next().expect("a word");
    let found =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(program).exists());
    if !found {
        println!("SKIPPED: {program} is not installed");
        return;
    }
    let (sandbox, remote) = bare_host(&format!("ForceCommand {shell} -c \"$SSH_ORIGINAL_COMMAND\""));
    push(&sandbox, &remote, "first").succeeds().says([".cache/haul"]);
    push(&sandbox, &remote, "second").succeeds().does_not_say(".cache/haul");
    compare(&sandbox.path("source"), &sandbox.path("second")).unwrap();
}

#[test]
fn login_shell_dash() {
    through("dash");
}

#[test]
fn login_shell_busybox() {
    through("busybox sh");
}

#[test]
fn login_shell_zsh() {
    through("zsh");
}

#[test]
fn login_shell_tcsh() {
    through("tcsh");
}

#[test]
fn login_shell_fish() {
    through("fish");
}

/// A host with its home on a file system mounted with these options, where haul cannot be put.
fn home_on(options: &str, prepare: impl Fn(&haul_e2e::Mount<'_>), reason: &str) {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let mount = sandbox.tmpfs("special-home", options);
    prepare(&mount);
    let home = Some(mount.path().to_owned());
    let remote = Remote::without_haul(&sandbox, Options { home, ..Options::default() });
    sandbox.tree("source");
    push(&sandbox, &remote, "there").succeeds().says(["for this copy alone", reason]);
    compare(&sandbox.path("source"), &sandbox.path("there")).unwrap();
    assert_eq!(placed(&remote), Vec::<PathBuf>::new());
    let elsewhere = sandbox.path("else where");
    let named = |target: &str| {
        let run = remote.haul(&sandbox).arg("--remote-dir").arg(&elsewhere).args(["-r", "source"]);
        run.arg(remote.at(sandbox.path(target))).run().succeeds()
    };
    named("first").says(["installed haul", "else where/haul/"]);
    named("second").does_not_say("installed haul");
    remote.is_left_clean();
}

#[test]
fn a_noexec_home_is_passed_over() {
    home_on("size=64m,noexec", |_| {}, "allows no execution");
}

#[test]
fn a_read_only_home_is_passed_over() {
    home_on("size=64m", |mount| mount.remount("ro"), "Read-only file system");
}

#[test]
fn a_full_home_is_passed_over() {
    home_on("size=1m", |_| {}, "No space left on device");
}

#[test]
fn a_login_that_runs_another_program_is_given_up() {
    let (sandbox, remote) = bare_host("");
    fs::write(remote.home().join(".bashrc"), "exec cat\n").unwrap();
    let slow =
        remote.haul(&sandbox).args(["--silence", "7s", "-r", "source"]).arg(remote.at(sandbox.path("there"))).run();
    slow.ends(3).says(["waiting for 127.0.0.1 to start haul", "did not start on 127.0.0.1 within 7 s", ".bashrc"]);
    fs::write(remote.home().join(".bashrc"), "exit 0\n").unwrap();
    push(&sandbox, &remote, "there").ends(3).says(["ended with status 0", ".bashrc", "echo ok"]);
    remote.is_left_clean();

    let forced = Remote::without_haul(
        &sandbox,
        Options { extra_config: "ForceCommand /usr/lib/openssh/sftp-server".into(), ..Options::default() },
    );
    fs::remove_file(remote.home().join(".bashrc")).unwrap();
    let run =
        forced.haul(&sandbox).args(["--silence", "3s", "-r", "source"]).arg(forced.at(sandbox.path("there"))).run();
    run.ends(3).says(["did not start on 127.0.0.1 within 3 s", "forced command"]);
}

#[test]
fn another_machine_type_is_reported_with_the_remedy() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    let bin = sandbox.script(
        "odd/uname",
        "#!/bin/sh\ncase $1 in -s) echo Linux;; -m) echo riscv64;; *) echo Linux riscv64;; esac\n",
    );
    let path = format!("{}:/usr/bin:/bin", bin.parent().expect("a directory").display());
    let remote = Remote::with_path(&sandbox, Options::default(), &path);
    push(&sandbox, &remote, "there").ends(3).says(["127.0.0.1", "riscv64", "--target-command"]);
    assert_eq!(placed(&remote), Vec::<PathBuf>::new());
}
