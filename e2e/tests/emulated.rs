//! haul for aarch64 under qemu: round trips, and its deployment from x86-64. `cargo xtask emulate` runs these.

use std::fs;
use std::time::Duration;

use haul_e2e::{EmulatedHaul, Options, Remote, Sandbox, compare, contents, hidden_or_partial, within};
use rustix::process::Signal;

/// Emulation takes many times as long.
const LIMIT: Duration = Duration::from_secs(300);
const BIG: u64 = 48_000_000;
const SOME: u64 = 4_000_000;

#[test]
fn it_copies_syncs_and_verifies() {
    let Some(emulated) = EmulatedHaul::or_skip() else { return };
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    let haul = |words: &[&str]| emulated.haul(&sandbox).limit(LIMIT).args(words).run();
    haul(&["-r", "source", "copied"]).succeeds();
    compare(&source, &sandbox.path("copied")).unwrap();
    haul(&["verify", "-r", "source", "copied"]).succeeds();
    sandbox.file("source/new", "new");
    fs::remove_file(source.join("x/y/z/deep")).unwrap();
    haul(&["verify", "-r", "source", "copied"]).ends(1);
    haul(&["sync", "--delete", "source/", "copied"]).succeeds();
    compare(&source, &sandbox.path("copied")).unwrap();
}

#[test]
fn it_resumes_a_killed_copy() {
    let Some(emulated) = EmulatedHaul::or_skip() else { return };
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source/big", BIG);
    let place = sandbox.dir("place");
    let copy = || emulated.haul(&sandbox).limit(LIMIT).args(["--json", "source/big", "place/big"]);
    let mut running = copy().args(["--xfrrate", "4m"]).start();
    assert!(within(LIMIT, || hidden_or_partial(&place, &[], SOME).is_some()), "{}", running.stderr_so_far());
    running.signal(Signal::KILL);
    running.wait_up_to(LIMIT);
    let run = copy().run().succeeds();
    compare(&source, &place.join("big")).unwrap();
    assert!(run.summary()["bytes_skipped"].as_u64().is_some_and(|skipped| skipped > 0), "{}", run.account());
}

/// A host for aarch64 without haul.
fn host(sandbox: &Sandbox, emulated: &EmulatedHaul) -> Remote {
    let script = sandbox.script("host/session", &emulated.host_script());
    let uname = sandbox.script("host/uname", "#!/bin/sh\necho Linux aarch64\n");
    let path = format!("{}:/usr/bin:/bin", uname.parent().expect("a directory").display());
    let options = Options { extra_config: format!("ForceCommand {}\n", script.display()), ..Options::default() };
    Remote::with_path(sandbox, options, &path)
}

#[test]
fn a_host_for_another_architecture_gets_an_executable_for_it() {
    let Some(emulated) = EmulatedHaul::or_skip() else { return };
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    let remote = host(&sandbox, &emulated);
    let push = |options: &[&str], target: &str| {
        remote
            .haul(&sandbox)
            .limit(LIMIT)
            .args(options)
            .args(["-r", "source"])
            .arg(remote.at(sandbox.path(target)))
            .run()
    };
    push(&[], "refused").ends(3).says(["aarch64", "--worker-binary"]);
    let named = emulated.executable.display().to_string();
    push(&["--worker-binary", &named], "first").succeeds().says([".cache/haul"]);
    compare(&source, &sandbox.path("first")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let released = sandbox.path(format!("home/.cache/haul/haul-{version}-aarch64-unknown-linux-gnu"));
    fs::create_dir_all(released.parent().expect("a directory")).unwrap();
    fs::copy(&emulated.executable, &released).unwrap();
    push(&[], "second").succeeds().does_not_say(".cache/haul");
    compare(&source, &sandbox.path("second")).unwrap();
    let placed = fs::read_dir(remote.home().join(".cache/haul")).unwrap().flatten().next().expect("it is placed");
    assert!(contents(&placed.path().join("haul")) == contents(&emulated.executable), "it is another program");
    remote.is_left_clean();
}
