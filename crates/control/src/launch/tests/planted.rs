//! Files that others left in the cache directory, or could change there, are never started.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use haul_lab::install_script;

use super::sandbox::{Sandbox, installed, shell, talk};

/// Another user.
const STRANGER: u32 = 65534;

/// Returns a script that claims success to every question, and leaves a trace.
fn planted(trace: &Path) -> String {
    format!("#!/bin/sh\necho \"$*\" >>'{}'\nexit 0\n", trace.display())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root() && !haul_lab::is_emulated_without("other owner")
}

/// Returns a host, its directory for one copy's executable, and its cache directory.
fn host() -> (Sandbox, PathBuf, PathBuf) {
    let mut sandbox = Sandbox::dash();
    let private = sandbox.directory.path().join("private");
    fs::create_dir(&private).unwrap();
    sandbox.environment.push(format!("TMPDIR={}", private.display()));
    let cache = sandbox.home().join(".cache");
    (sandbox, private, cache)
}

/// Starts, and checks that the executable ran from a private directory that is gone afterwards.
pub(super) fn starts_privately(sandbox: &Sandbox, private: &Path, what: &str) {
    let started = sandbox.start().unwrap_or_else(|error| panic!("{what}: {error}"));
    let placed = started.deployed.clone().unwrap_or_else(|| panic!("{what}: not placed"));
    let begins = format!("{}/.haul-", private.display());
    assert!(placed.starts_with(&begins) && placed.contains("for this copy alone: "), "{what}: {placed}");
    assert_eq!(talk(started).0, "0022", "{what}");
    assert_eq!(fs::read_dir(private).unwrap().count(), 0, "{what}: something is left");
}

#[test]
fn a_script_in_a_world_writable_directory_is_not_started() {
    for sh in installed().iter().filter(|shell| ["dash", "bash", "busybox", "zsh", "mksh"].contains(&shell.name)) {
        let mut sandbox = Sandbox::new(shell("dash"), sh);
        let [private, cache, trace] = ["private", "shared", "trace"].map(|name| sandbox.directory.path().join(name));
        sandbox.environment.push(format!("TMPDIR={}", private.display()));
        sandbox.environment.push(format!("XDG_CACHE_HOME={}", cache.display()));
        let directory = cache.join(sandbox.version_directory());
        fs::create_dir_all(&directory).unwrap();
        fs::create_dir(&private).unwrap();
        install_script(&directory.join("haul"), &planted(&trace));
        set_mode(&cache, 0o777);
        if is_root() {
            for path in [cache.join("haul"), directory.clone(), directory.join("haul")] {
                chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
            }
        }
        starts_privately(&sandbox, &private, sh.name);
        assert!(!trace.exists(), "{}: {:?}", sh.name, fs::read_to_string(&trace));
        sandbox.deploy = false;
        assert!(sandbox.error().contains("--no-deploy forbids"), "{}", sh.name);
        assert!(!trace.exists(), "{}", sh.name);
    }
}

#[test]
fn a_file_other_than_the_executable_is_replaced_and_never_run() {
    let (sandbox, _, _) = host();
    let trace = sandbox.directory.path().join("trace");
    let placed = PathBuf::from(sandbox.start().unwrap().deployed.unwrap());
    let whole = fs::read_to_string(&placed).unwrap();
    let stranger = |path: &Path| {
        set_mode(path, 0o755);
        chown(path, Some(STRANGER), None).unwrap();
    };
    type Damage<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Damage<'_>); 7] = [
        ("empty", &|path| fs::write(path, "").unwrap()),
        ("truncated", &|path| fs::write(path, &whole[..5000]).unwrap()),
        ("appended to", &|path| fs::write(path, format!("{whole}\n")).unwrap()),
        ("a script that ends with 0", &|path| fs::write(path, planted(&trace)).unwrap()),
        ("writable for the group", &|path| set_mode(path, 0o770)),
        ("writable for others", &|path| set_mode(path, 0o702)),
        ("another user's", &|path| if is_root() { stranger(path) } else { set_mode(path, 0o777) }),
    ];
    for (what, damage) in cases {
        damage(&placed);
        let started = sandbox.start().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(started.deployed.as_deref(), placed.to_str(), "{what}");
        assert_eq!(talk(started).1, placed.to_str().unwrap(), "{what}");
        assert_eq!(fs::read_to_string(&placed).unwrap(), whole, "{what}");
        assert_eq!(fs::metadata(&placed).unwrap().permissions().mode() & 0o777, 0o700, "{what}");
        assert!(!trace.exists(), "{what}");
        assert_eq!(sandbox.start().unwrap().deployed, None, "{what}: it is placed again");
    }
}

#[test]
fn a_directory_writable_by_others_is_not_used() {
    type Change<'a> = &'a dyn Fn(&Path);
    let link = |path: &Path| {
        let elsewhere = path.with_extension("elsewhere");
        fs::rename(path, &elsewhere).unwrap();
        symlink(&elsewhere, path).unwrap();
    };
    let stranger =
        |path: &Path| if is_root() { chown(path, Some(STRANGER), None).unwrap() } else { set_mode(path, 0o777) };
    let changes: [(&str, Change<'_>); 4] = [
        ("writable for the group", &|path| set_mode(path, 0o770)),
        ("writable for others", &|path| set_mode(path, 0o707)),
        ("a link", &link),
        ("another user's", &stranger),
    ];
    for (what, change) in changes {
        for below in ["", "haul", "haul/VERSION"] {
            // A link to the whole cache directory leads to a place that only this user can write.
            if (what, below) == ("a link", "") {
                continue;
            }
            let (sandbox, private, cache) = host();
            drop(sandbox.start().unwrap());
            change(&cache.join(below.replace("haul/VERSION", &sandbox.version_directory())));
            starts_privately(&sandbox, &private, &format!(".cache/{below}: {what}"));
        }
    }
}

#[test]
fn a_sticky_directory_is_as_safe_as_its_contents() {
    let (mut sandbox, private, _) = host();
    let shared = sandbox.directory.path().join("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    sandbox.environment.push(format!("XDG_CACHE_HOME={}", shared.display()));
    let placed = sandbox.start().unwrap().deployed.unwrap();
    assert!(placed.starts_with(&format!("{}/haul/", shared.display())), "{placed}");
    assert_eq!(sandbox.start().unwrap().deployed, None);
    if is_root() {
        // Another user created the directory first.
        fs::remove_dir_all(shared.join("haul")).unwrap();
        fs::create_dir(shared.join("haul")).unwrap();
        chown(shared.join("haul"), Some(STRANGER), None).unwrap();
        starts_privately(&sandbox, &private, "another user's directory in a sticky one");
        assert_eq!(fs::read_dir(shared.join("haul")).unwrap().count(), 0, "something was made in it");
    }
}

#[test]
fn without_a_safe_directory_nothing_is_deployed() {
    let (sandbox, private, cache) = host();
    fs::create_dir(&cache).unwrap();
    set_mode(&cache, 0o777);
    set_mode(&private, 0o777);
    let error = sandbox.error();
    assert!(error.contains("the cache directory is not safe (others can write to "), "{error}");
    assert_eq!(fs::read_dir(&private).unwrap().count() + fs::read_dir(&cache).unwrap().count(), 0);
}
