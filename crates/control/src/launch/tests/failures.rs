//! Starts that must fail, and their messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use haul_base::copy::End;
use haul_base::copy::hello::VERSION;
use haul_base::copy::location::Host;
use haul_base::copy::spec::{RemoteAccess, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_lab::install_script;

use super::sandbox::{Sandbox, installed, pretended_haul, restricted, shell};
use crate::launch::{StartControl, StartedWorker, start_remote};

/// End of a hint to install haul by hand.
const BY_HAND: &str = "--target-command 'ssh -p 2222 %U@%H /opt/bin/haul'";

/// Returns sandboxes with GNU tools, and with busybox's if installed.
fn with_both_kinds_of_tools() -> Vec<Sandbox> {
    let mut sandboxes = vec![Sandbox::dash()];
    if installed().iter().any(|shell| shell.name == "busybox") {
        sandboxes.push(Sandbox::new(shell("busybox"), &shell("busybox")));
    }
    sandboxes
}

fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in:\n{error}");
    }
}

#[test]
fn no_deploy_is_respected() {
    let mut sandbox = Sandbox::dash();
    sandbox.deploy = false;
    assert_says(
        &sandbox.error(),
        &["no haul on ann@db1, and --no-deploy forbids installing it there\ninstall haul in", BY_HAND],
    );
    install_script(&sandbox.bin().join("haul"), &pretended_haul("0.0.1", 0));
    assert_says(
        &sandbox.error(),
        &["another version of haul on ann@db1 (", "/bin/haul haul 0.0.1 protocol 1), and --no-deploy"],
    );
    assert!(sandbox.files().is_empty());
}

#[test]
fn a_dynamic_executable_is_not_deployed() {
    if haul_lab::is_emulated_without("host of this architecture") {
        return;
    }
    let mut sandbox = Sandbox::dash();
    sandbox.deployable = false;
    assert_says(
        &sandbox.error(),
        &["this haul is not a static executable, so it cannot be installed there\nbuild it with `cargo xtask dist`"],
    );
    assert!(sandbox.files().is_empty());
}

#[test]
fn another_machine_type_is_reported_before_anything_is_sent() {
    let sandbox = Sandbox::dash();
    fs::remove_file(sandbox.bin().join("uname")).unwrap();
    install_script(&sandbox.bin().join("uname"), "#!/bin/sh\necho Darwin arm64\n");
    assert_says(
        &sandbox.error(),
        &[
            "cannot be installed there: the host is Darwin arm64, but this haul is built for Linux",
            "--worker-binary FILE",
            BY_HAND,
        ],
    );
    assert!(sandbox.files().is_empty());
}

#[test]
fn an_untrusted_executable_for_another_machine_is_named() {
    let mut sandbox = Sandbox::dash();
    fs::remove_file(sandbox.bin().join("uname")).unwrap();
    install_script(&sandbox.bin().join("uname"), "#!/bin/sh\necho Linux aarch64\n");
    let planted = sandbox.directory.path().join("planted");
    install_script(&planted, &pretended_haul(VERSION, 0));
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o757)).unwrap();
    sandbox.for_others = vec![("Linux aarch64".to_owned(), planted.clone())];
    assert_says(
        &sandbox.error(),
        &[
            "no haul on ann@db1, and the one for Linux aarch64 on this host is not trusted: ",
            "/planted: others can write it\nchmod go-w ",
        ],
    );
    assert!(sandbox.files().is_empty());
}

#[test]
fn a_missing_tool_is_named() {
    let sandbox = Sandbox::dash();
    fs::remove_file(sandbox.bin().join("wc")).unwrap();
    assert_says(&sandbox.error(), &["the program wc is missing\n", BY_HAND]);
}

/// A host whose home and directory for temporary files are one.
fn without_another_place(mut sandbox: Sandbox) -> Sandbox {
    sandbox.environment.push(format!("TMPDIR={}", sandbox.home().display()));
    sandbox
}

#[test]
fn a_host_without_a_usable_directory_is_reported() {
    let cases = [
        ("ro", "cannot write to the cache directory (", "Read-only file system"),
        ("noexec", "the cache directory allows no execution (", "/.cache/haul/"),
        ("size=256k", "the disk is full (", "free space there"),
        ("nr_inodes=3", "the disk is full (", "No space left on device"),
    ];
    for (options, what, detail) in cases {
        for sandbox in with_both_kinds_of_tools() {
            let mut sandbox = without_another_place(sandbox);
            install_script(&sandbox.program, &pretended_haul(VERSION, 2_000_000));
            sandbox.mount_home(options);
            assert_says(&sandbox.error(), &[what, detail, ", and ", "--remote-dir DIR", BY_HAND]);
        }
    }
    let sandbox = without_another_place(Sandbox::dash());
    fs::remove_dir(sandbox.home()).unwrap();
    assert_says(&sandbox.error(), &["the account has no home directory (", "--remote-dir DIR", BY_HAND]);
    assert!(!sandbox.home().exists());
}

#[test]
fn a_host_that_logs_in_and_says_nothing_is_given_up() {
    let mut sandbox = Sandbox::dash();
    let logged_in = "echo 'Authenticated to db1 ([::1]:22) using \"publickey\".' >&2";
    for mute in [format!("{logged_in}; exec sleep 19"), "echo Welcome; exec sleep 19".to_owned()] {
        sandbox.before = mute;
        sandbox.start_timeout = Duration::from_millis(300);
        let error = sandbox.error();
        assert_says(&error, &["haul did not start on ann@db1 within 0 s of the login\n", ".bashrc", "forced command"]);
        assert_says(&error, &["ssh -p 2222 ann@db1 echo ok must print ok", "--silence"]);
        assert!(!error.contains("Authenticated"), "{error}");
    }
}

#[test]
fn a_host_that_takes_no_executable_is_given_up() {
    let mut sandbox = Sandbox::dash();
    install_script(&sandbox.program, &pretended_haul(VERSION, 2_000_000));
    sandbox.before = format!("{}; exec sleep 19", r"printf '\nHAUL-ABSENT Linux x86_64 none\n\nHAUL-READY\n'");
    sandbox.before = sandbox.before.replace("Linux x86_64", &super::sandbox::system());
    sandbox.start_timeout = Duration::from_millis(300);
    assert_says(&sandbox.error(), &["haul did not start on ann@db1 within"]);
}

#[test]
fn a_start_up_file_that_exits_is_named() {
    let mut sandbox = Sandbox::dash();
    sandbox.before = "exit 0".into();
    assert_says(&sandbox.error(), &["cannot start haul on ann@db1: ended with status 0\n", ".bashrc", "echo ok"]);
}

#[test]
fn a_restricted_shell_without_haul_is_reported() {
    let sandbox = Sandbox::new(restricted(), &shell("dash"));
    assert_says(&sandbox.error(), &["ann@db1 has a restricted shell", "exec: restricted", "in its PATH"]);
}

#[test]
fn a_damaged_executable_is_neither_started_nor_kept() {
    for with_sha256sum in [true, false] {
        let mut sandbox = Sandbox::dash();
        let mut text = pretended_haul(VERSION, 1000);
        if !with_sha256sum {
            fs::remove_file(sandbox.bin().join("sha256sum")).unwrap();
            text.push_str("# not whole\n");
        }
        install_script(&sandbox.program, &text);
        sandbox.filter = with_sha256sum.then_some("sed -u s/x/y/");
        let expected = if with_sha256sum { "(its SHA-256 differs)" } else { "(it ended with status 1:" };
        assert_says(&sandbox.error(), &["the copy does not run there", expected, "try again"]);
        assert!(sandbox.files().is_empty(), "{:?}", sandbox.files());
    }
}

#[test]
fn a_broken_connection_leaves_no_file() {
    for mut sandbox in with_both_kinds_of_tools() {
        sandbox.filter = Some("head -c 5000");
        assert_says(&sandbox.error(), &["(5000 of 10", " bytes arrived)"]);
        assert!(sandbox.files().is_empty(), "{:?}", sandbox.files());
    }
}

#[test]
fn sshs_failure_is_reported_in_its_own_words_and_ours() {
    let mut sandbox = Sandbox::dash();
    sandbox.before = "echo 'ann@db1: Permission denied (publickey).' >&2; exit 255".into();
    assert_says(
        &sandbox.error(),
        &[
            "ann@db1 refused the login\nnote: ssh said: ann@db1: Permission denied (publickey).\n",
            "ssh -p 2222 ann@db1 true",
        ],
    );
    sandbox.before = "echo This account is currently not available.; exit 1".into();
    assert_says(&sandbox.error(), &["the account on ann@db1 cannot run commands\nnote: it said: This account"]);
    sandbox.before = "kill -9 $$".into();
    assert_says(&sandbox.error(), &["cannot start haul on ann@db1: was killed by signal 9\n"]);
}

#[test]
fn an_endlessly_talking_host_is_given_up() {
    let mut sandbox = Sandbox::dash();
    sandbox.before = "yes 'spam spam'; exit".into();
    assert_says(&sandbox.error(), &["ann@db1 printed too much before", "it said: spam spam\n", "login shell"]);
}

#[test]
fn a_host_without_sh_is_reported() {
    let sandbox = Sandbox::dash();
    fs::remove_file(sandbox.bin().join("sh")).unwrap();
    assert_says(&sandbox.error(), &["a shell was not found on ann@db1\n", BY_HAND]);
}

/// Starts through a `--source-command` command.
fn own_command(template: &str) -> Result<StartedWorker, haul_base::copy::error::Error> {
    let access = RemoteAccess { source_command: Some(template.into()), ..RemoteAccess::default() };
    let host = Host::Remote { user: Some("ann".into()), name: "db1".into() };
    let program = WorkerProgram {
        executable: "/nonexistent".into(),
        worker_arguments: vec!["worker".into()],
        ..WorkerProgram::default()
    };
    start_remote(&host, End::Source, &access, &program, StartControl { cancel: &Cancel::new(), on_slow: &|_| () })
}

#[test]
fn a_users_command_is_started_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let haul = directory.path().join("its haul");
    install_script(&haul, &pretended_haul("9.9.9", 0));
    let started = own_command(&format!("timeout 20 env WHERE=%U@%H '{}'", haul.display())).unwrap();
    assert_eq!((started.version.as_str(), started.deployed.clone()), ("9.9.9", None));
    assert_eq!(super::sandbox::talk(started).1, haul.display().to_string());
}

#[test]
fn a_failing_command_is_reported() {
    if haul_lab::is_emulated_without("error of a failed exec") {
        return;
    }
    let error = |template: &str| own_command(template).unwrap_err().to_string();
    assert_says(&error("/nonexistent/ssh %H"), &["cannot start /nonexistent/ssh on this host", "full path"]);
    assert_says(
        &error("sh -c 'exec haul-that-is-not-there' %H"),
        &["the program of --source-command was not found on ann@db1\n", "the command said: "],
    );
    assert_says(
        &error("sh -c 'echo hello %H; exit 3'"),
        &[
            "cannot start haul on ann@db1: ended with status 3\nnote: it said: hello db1\n",
            "sh -c 'echo hello db1; exit 3' worker",
        ],
    );
    assert_says(
        &error("printf '\\nHAUL-WORKER 2 7.0\\n%%s'"),
        &["haul 7.0 on ann@db1 speaks protocol 2, this one 1\n", "--source-command"],
    );
    assert_says(&error("printf '\\nHAUL-READY\\n%%s'"), &["ann@db1 requested the executable twice"]);
    assert_says(&error("printf '\\nHAUL-SYSTEM Linux aarch64\\n%%s'"), &["ann@db1 requested the executable twice"]);
    assert_says(&error("'"), &["unclosed single quote"]);
}

#[test]
fn option_like_hosts_are_refused_before_any_command() {
    let host = Host::Remote { user: None, name: "-oProxyCommand=touch x".into() };
    let program =
        WorkerProgram { executable: "/nonexistent".into(), worker_arguments: Vec::new(), ..WorkerProgram::default() };
    let (access, control) = (RemoteAccess::default(), StartControl { cancel: &Cancel::new(), on_slow: &|_| () });
    let error = start_remote(&host, End::Source, &access, &program, control).unwrap_err();
    assert!(matches!(error, haul_base::copy::error::Error::Usage(_)), "{error}");
}
