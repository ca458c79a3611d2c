//! Starts that must succeed: finding haul, and deploying it.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use haul_base::copy::End;
use haul_base::copy::hello::VERSION;
use haul_base::copy::location::Host;
use haul_base::copy::spec::{Login, RemoteAccess, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_lab::install_script;

use super::planted::starts_privately;
use super::sandbox::{Sandbox, installed, pretended_haul, restricted, shell, talk};
use crate::launch::StartControl;
use crate::launch::remote::start_through;

/// Shells that may be installed as `sh`.
const POSIX: [&str; 5] = ["dash", "bash", "busybox", "zsh", "mksh"];

/// Deploys haul, then finds it. Returns the path.
fn place_and_find(sandbox: &Sandbox, what: &str) -> String {
    let started = sandbox.start().unwrap_or_else(|error| panic!("{what}: {error}"));
    let placed = started.deployed.clone().unwrap_or_else(|| panic!("{what}: not placed"));
    assert_eq!(talk(started), ("0022".to_owned(), placed.clone()), "{what}");
    assert_eq!(fs::read(&placed).unwrap(), fs::read(&sandbox.program).unwrap(), "{what}");
    let again = sandbox.start().unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!(again.deployed, None, "{what}");
    assert_eq!(talk(again).1, placed, "{what}");
    placed
}

#[test]
fn the_executable_is_deployed_once_with_any_shell() {
    let shells = installed();
    for sh in shells.iter().filter(|shell| POSIX.contains(&shell.name)) {
        for login in &shells {
            let sandbox = Sandbox::new(login.clone(), sh);
            let placed = place_and_find(&sandbox, &format!("login shell {}, sh is {}", login.name, sh.name));
            let directory = format!("{}/.cache/haul/{VERSION}-", sandbox.home().display());
            assert!(placed.starts_with(&directory) && placed.ends_with("/haul"), "{placed}");
            let others: Vec<String> = sandbox.files().into_iter().filter(|file| file.starts_with(".cache")).collect();
            assert_eq!(others.len(), 1, "{others:?}");
        }
    }
}

#[test]
fn an_executable_is_verified_again_only_after_it_has_changed() {
    for sh in installed().iter().filter(|shell| POSIX.contains(&shell.name)) {
        let mut sandbox = Sandbox::new(sh.clone(), sh);
        symlink(if sh.name == "busybox" { sh.program } else { "/usr/bin/stat" }, sandbox.bin().join("stat")).unwrap();
        let placed = sandbox.start().unwrap();
        let verified = placed.verified.clone().expect("the new file");
        let path = talk(placed).1;
        let again = sandbox.start().unwrap();
        assert_eq!(again.verified.as_ref(), Some(&verified), "{}", sh.name);
        talk(again);

        // Nothing there can verify it.
        for tool in ["sha256sum", "shasum", "openssl", "busybox"] {
            let _ = fs::remove_file(sandbox.bin().join(tool));
        }
        sandbox.deploy = false;
        // This shell has its tools inside.
        let can_verify = sh.name == "busybox";
        assert!(can_verify || sandbox.error().contains("--no-deploy"), "{}", sh.name);
        sandbox.verified = Some(verified);
        let known = sandbox.start().unwrap_or_else(|error| panic!("{}: {error}", sh.name));
        assert_eq!(known.verified, None, "{}", sh.name);
        assert_eq!(talk(known).1, path, "{}", sh.name);
        let planted = fs::read(&path).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        // busybox has seconds.
        thread::sleep(Duration::from_millis(1100));
        fs::write(&path, planted).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        match can_verify {
            true => assert!(sandbox.start().unwrap().verified.is_some(), "{}", sh.name),
            false => assert!(sandbox.error().contains("--no-deploy"), "{}", sh.name),
        }
    }
}

#[test]
fn each_host_gets_the_executable_for_its_system() {
    for sh in installed().iter().filter(|shell| POSIX.contains(&shell.name)) {
        let mut sandbox = Sandbox::new(sh.clone(), sh);
        let for_arm = sandbox.directory.path().join("for-arm");
        install_script(&for_arm, &pretended_haul(VERSION, 30_000));
        sandbox.for_others = vec![("Linux aarch64".to_owned(), for_arm.clone())];
        let own = place_and_find(&sandbox, sh.name);
        let uname = sandbox.bin().join("uname");
        fs::remove_file(&uname).unwrap();
        install_script(&uname, "#!/bin/sh\necho Linux aarch64\n");
        sandbox.program = for_arm;
        let placed = place_and_find(&sandbox, sh.name);
        assert_ne!(placed, own, "{}: both have one path", sh.name);
    }
}

#[test]
fn a_policy_that_forbids_it_or_is_not_understood_prevents_it_in_any_shell() {
    let forbidding: [&[u8]; 16] = [
        b"deploy = no\n",
        b"deploy=no\n",
        b"# a comment\n\n  deploy =no  \n",
        b"deploy = no",
        b"deploy\t=\tno\n",
        b"deploy = no\r\n",
        b"sandbox = required\r\n\tdeploy=no\t\r\n",
        b"deploy = no\ndeploy = yes\n",
        b"deploy =\xc2\xa0no\n",
        b"\xe2\x80\x83deploy = no\n",
        b"Deploy = No\n",
        b"deploy = \"no\"\n",
        b"deploy no\n",
        b"deploy = yes\nprogams = no\n",
        b"audit = /var/log/\n",
        b"audit = log\n",
    ];
    let permitting: [&[u8]; 5] = [
        b"",
        b"# deploy = no\n \t# deploy = no\r\n\r\n",
        b"deploy = yes\r\nprograms\t=no",
        b"audit = journal\naudit=/var/log/a haul = 1\n",
        b"clear-text = no\nown-commands = no\ndeltas = yes\nsandbox = optional\n",
    ];
    for sh in installed().iter().filter(|shell| POSIX.contains(&shell.name)) {
        let mut sandbox = Sandbox::new(sh.clone(), sh);
        sandbox.respect_modes();
        let policy = sandbox.home().join(".config/haul/policy");
        fs::create_dir_all(policy.parent().unwrap()).unwrap();
        let is_forbidden = |what: &str| {
            let error = sandbox.error();
            assert!(error.contains("/.config/haul/policy forbids it"), "{}, {what}: {error}", sh.name);
            assert!(!sandbox.home().join(".cache").exists(), "{}, {what}", sh.name);
        };
        for text in forbidding {
            fs::write(&policy, text).unwrap();
            is_forbidden(&String::from_utf8_lossy(text));
        }
        fs::write(&policy, "").unwrap();
        if !haul_lab::is_emulated_without("other owner") {
            fs::set_permissions(&policy, fs::Permissions::from_mode(0o000)).unwrap();
            is_forbidden("unreadable");
        }
        fs::remove_file(&policy).unwrap();
        fs::create_dir(&policy).unwrap();
        is_forbidden("a directory");
        fs::remove_dir(&policy).unwrap();
        for text in permitting {
            fs::write(&policy, text).unwrap();
            place_and_find(&sandbox, &format!("{}, {}", sh.name, String::from_utf8_lossy(text)));
            fs::remove_dir_all(sandbox.home().join(".cache")).unwrap();
        }
    }
}

#[test]
fn no_path_adds_a_line_to_the_scripts_output() {
    for sh in installed().iter().filter(|shell| POSIX.contains(&shell.name)) {
        let mut sandbox = Sandbox::new(sh.clone(), sh);
        let config = sandbox.directory.path().join(r"a\nHAUL-READY\n");
        sandbox.environment.push(format!("XDG_CONFIG_HOME={}", config.display()));
        fs::create_dir_all(config.join("haul")).unwrap();
        fs::write(config.join("haul/policy"), "deploy = no\n").unwrap();
        let error = sandbox.error();
        assert!(error.contains("/haul/policy forbids it"), "{}: {error}", sh.name);
    }
}

#[test]
fn other_users_can_neither_change_nor_read_it() {
    let sandbox = Sandbox::dash();
    let placed = place_and_find(&sandbox, "dash");
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&placed), 0o700);
    assert_eq!(mode(placed.strip_suffix("/haul").unwrap()), 0o700);
}

#[test]
fn the_cache_directory_of_the_account_is_used() {
    let mut sandbox = Sandbox::dash();
    let cache = sandbox.directory.path().join("a cache");
    sandbox.environment.push(format!("XDG_CACHE_HOME={}", cache.display()));
    let placed = place_and_find(&sandbox, "XDG_CACHE_HOME");
    assert!(placed.starts_with(&format!("{}/haul/", cache.display())), "{placed}");
    sandbox.environment[0] = "XDG_CACHE_HOME=relative".into();
    let placed = place_and_find(&sandbox, "a relative XDG_CACHE_HOME does not count");
    assert!(placed.starts_with(&format!("{}/.cache/haul/", sandbox.home().display())), "{placed}");
}

#[test]
fn a_home_that_cannot_hold_it_is_passed_over() {
    let shells = installed();
    for sh in shells.iter().filter(|shell| POSIX.contains(&shell.name)) {
        for options in ["ro", "noexec", "size=256k", "nr_inodes=3", ""] {
            let mut sandbox = Sandbox::new(shell("dash"), sh);
            let private = sandbox.directory.path().join("private");
            fs::create_dir(&private).unwrap();
            sandbox.environment.push(format!("TMPDIR={}", private.display()));
            install_script(&sandbox.program, &pretended_haul(VERSION, 2_000_000));
            match options {
                "" => fs::remove_dir(sandbox.home()).unwrap(),
                options => sandbox.mount_home(options),
            }
            starts_privately(&sandbox, &private, &format!("{}, {options}", sh.name));
        }
    }
}

#[test]
fn the_executable_goes_into_a_named_directory_with_any_shell() {
    for login in installed() {
        let mut sandbox = Sandbox::new(login.clone(), &shell("dash"));
        for name in ["scratch/a", "it's $(x) `y` %s !é"] {
            for base in [sandbox.directory.path().to_owned(), "~".into()] {
                sandbox.remote_dir = Some(base.join(name));
                let placed = place_and_find(&sandbox, &format!("{}, {name}", login.name));
                let at = if base.starts_with("~") { sandbox.home() } else { base }.join(name).join("haul");
                assert!(Path::new(&placed).exists() && at.exists(), "{}: {placed}", login.name);
            }
        }
        assert!(!sandbox.home().join(".cache").exists());
    }
}

#[test]
fn a_named_directory_of_somebody_else_gets_a_private_one() {
    let mut sandbox = Sandbox::dash();
    let shared = sandbox.directory.path().join("shared");
    fs::create_dir_all(shared.join("haul")).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(shared.join("haul"), fs::Permissions::from_mode(0o777)).unwrap();
    sandbox.remote_dir = Some(shared.clone());
    let started = sandbox.start().unwrap();
    let placed = started.deployed.clone().unwrap();
    assert!(placed.starts_with(&format!("{}/.haul-", shared.display())), "{placed}");
    talk(started);
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 1);
}

#[test]
fn a_restricted_shell_starts_the_haul_in_its_path() {
    let sandbox = Sandbox::new(restricted(), &shell("dash"));
    let there = sandbox.bin().join("haul");
    install_script(&there, &pretended_haul(VERSION, 0));
    let started = sandbox.start().unwrap();
    assert_eq!(started.deployed, None);
    assert_eq!(talk(started).1, there.display().to_string());
}

#[test]
fn settings_of_ssh_that_break_a_program_are_overridden() {
    let sandbox = Sandbox::dash();
    let [ssh, typed] = ["ssh", "typed"].map(|name| sandbox.directory.path().join(name));
    let pretended = format!(
        "#!/bin/sh\ncase $1 in -G) echo sessiontype none; echo remotecommand tmux a; echo stdinnull no; exit;; esac\n\
         printf '%s ' \"$@\" >'{}'\nprintf '\\nHAUL-WORKER 1 {VERSION}\\n'\nexec cat\n",
        typed.display()
    );
    install_script(&ssh, &pretended);
    let host = Host::Remote { user: None, name: "db1".into() };
    let login = Login { ssh_options: vec!["SessionType=none".into()], ..Login::default() };
    let access = RemoteAccess { login, ..RemoteAccess::default() };
    let program = WorkerProgram {
        executable: sandbox.program.clone(),
        worker_arguments: vec!["worker".into()],
        ..WorkerProgram::default()
    };
    let control = StartControl { cancel: &Cancel::new(), on_slow: &|_| () };
    start_through(ssh.as_os_str(), &host, End::Target, &access, &program, control).unwrap();
    let typed = fs::read_to_string(typed).unwrap();
    // ssh uses the first of repeated options.
    assert!(typed.starts_with("-o RemoteCommand=none -o SessionType=default -x "), "{typed}");
    assert!(!typed.contains("StdinNull"), "{typed}");
}

#[test]
fn a_haul_of_the_same_kind_in_path_is_used() {
    let mut sandbox = Sandbox::dash();
    sandbox.deploy = false;
    let there = sandbox.bin().join("haul");
    install_script(&there, &pretended_haul(VERSION, 0));
    let started = sandbox.start().unwrap();
    assert_eq!((started.deployed.clone(), started.host_label.as_str()), (None, "ann@db1"));
    assert_eq!(talk(started), ("0022".to_owned(), there.display().to_string()));
    assert!(sandbox.files().is_empty());
}

#[test]
fn another_haul_in_path_is_left_alone() {
    let sandbox = Sandbox::dash();
    install_script(&sandbox.bin().join("haul"), &pretended_haul("0.0.1", 0));
    place_and_find(&sandbox, "beside another version");
    let sandbox = Sandbox::dash();
    install_script(&sandbox.bin().join("haul"), "#!/bin/sh\necho 'usage: haul CARGO'\necho more; exit 2\n");
    place_and_find(&sandbox, "beside something else of that name");
}

#[test]
fn a_damaged_copy_is_replaced() {
    let sandbox = Sandbox::dash();
    let placed = place_and_find(&sandbox, "first");
    fs::OpenOptions::new().write(true).open(&placed).unwrap().set_len(5000).unwrap();
    place_and_find(&sandbox, "after the damage");
}

#[test]
fn an_earlier_deployment_is_used_if_deployment_is_forbidden() {
    let mut sandbox = Sandbox::dash();
    let placed = place_and_find(&sandbox, "first");
    sandbox.deploy = false;
    assert_eq!(talk(sandbox.start().unwrap()).1, placed);
}

#[test]
fn other_sha256_tools_are_used_as_well() {
    let tools = [
        ("shasum", "#!/bin/sh\n[ \"$*\" = '-a 256' ] && exec /usr/bin/sha256sum\n"),
        ("openssl", "#!/bin/sh\n[ \"$*\" = 'dgst -sha256 -r' ] && /usr/bin/sha256sum | /bin/sed 's/ .*/ *stdin/'\n"),
        ("busybox", "#!/bin/sh\n[ \"$*\" = sha256sum ] && exec /usr/bin/sha256sum\n"),
    ];
    for (name, text) in tools {
        let sandbox = Sandbox::dash();
        fs::remove_file(sandbox.bin().join("sha256sum")).unwrap();
        install_script(&sandbox.bin().join(name), text);
        place_and_find(&sandbox, name);
    }
}

#[test]
fn without_a_tool_for_sha256_it_is_placed_each_time() {
    let sandbox = Sandbox::dash();
    fs::remove_file(sandbox.bin().join("sha256sum")).unwrap();
    for run in 1..=2 {
        let started = sandbox.start().unwrap();
        let placed = started.deployed.clone().unwrap_or_else(|| panic!("run {run}: an unchecked copy was started"));
        assert_eq!(talk(started).1, placed);
        assert_eq!(fs::read(&placed).unwrap(), fs::read(&sandbox.program).unwrap());
    }
}

#[test]
fn banners_do_no_harm() {
    let mut sandbox = Sandbox::dash();
    sandbox.before = "cat /dev/zero | head -c 60000; printf 'Welcome to db1'; echo 'a warning' >&2".into();
    place_and_find(&sandbox, "a banner");
}

#[test]
fn a_shell_that_reads_its_input_early_gets_none_of_ours() {
    let mut sandbox = Sandbox::dash();
    sandbox.before = "timeout 0.3 cat >\"$HOME/eaten-$$\"; rm -f \"$HOME/eaten-$$\"".into();
    place_and_find(&sandbox, "a greedy shell");
}
