//! A host's policy file: its restrictions on haul.

use std::fs;

use haul_e2e::{Haul, Options, Remote, Sandbox, compare};

/// A sandbox, and a host with this policy for its account.
fn host(policy: &str) -> (Sandbox, Remote) {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    write_policy(&remote, policy);
    sandbox.file("source", "content");
    (sandbox, remote)
}

fn write_policy(remote: &Remote, policy: &str) {
    let directory = remote.home().join(".config/haul");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("policy"), policy).unwrap();
}

fn push<'a>(sandbox: &'a Sandbox, remote: &Remote, options: &[&str]) -> Haul<'a> {
    remote.haul(sandbox).args(options).arg("source").arg(remote.at(sandbox.path("there")))
}

#[test]
fn clear_text_is_forbidden_in_either_direction() {
    let (sandbox, remote) = host("clear-text = no\n");
    let refusal = ["--no-encrypt is forbidden here", "haul/policy"];
    push(&sandbox, &remote, &["--no-encrypt"]).run().ends(1).says(refusal);
    let source = remote.at(sandbox.path("source"));
    remote.haul(&sandbox).arg("--no-encrypt").arg(source).arg("back").run().ends(1).says(refusal);
    assert!(!sandbox.path("there").exists() && !sandbox.path("back").exists());
    push(&sandbox, &remote, &[]).run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("there")).unwrap();
}

#[test]
fn an_invalid_policy_forbids_every_copy() {
    let (sandbox, remote) = host("# a comment\nclear-text = never\n");
    push(&sandbox, &remote, &[]).run().ends(1).says(["haul/policy, line 2: invalid setting 'clear-text = never'"]);
    assert!(!sandbox.path("there").exists());
}

#[test]
fn replacements_of_ssh_are_forbidden_on_their_host() {
    let (sandbox, remote) = host("");
    sandbox.file("home/.config/haul/policy", "own-commands = no\n");
    let touched = sandbox.path("touched");
    let command = format!("touch {}", touched.display());
    push(&sandbox, &remote, &["--target-command", &command]).run().ends(2).says([
        "--target-command",
        "forbidden here",
        "haul/policy",
    ]);
    assert!(!touched.exists());
    push(&sandbox, &remote, &[]).run().succeeds();
}

#[test]
fn a_sandbox_is_required() {
    let (sandbox, _remote) = host("");
    sandbox.file("home/.config/haul/policy", "sandbox = required\n");
    let copy = || sandbox.haul(["source", "there"]);
    copy().injecting("landlock_create_ruleset", "error=ENOSYS").run().ends(1).says(["without a sandbox is forbidden"]);
    assert!(!sandbox.path("there").exists());
    copy().run().succeeds();
}

#[test]
fn a_deployed_haul_is_neither_placed_nor_started() {
    let sandbox = Sandbox::new();
    let remote = Remote::without_haul(&sandbox, Options::default());
    sandbox.file("source", "content");
    write_policy(&remote, "deploy = no\n");
    push(&sandbox, &remote, &[]).run().ends(3).says(["haul/policy forbids it", "--target-command"]);
    assert!(!remote.home().join(".cache").exists());
    write_policy(&remote, "");
    push(&sandbox, &remote, &[]).run().succeeds();
    // The script understands what the worker understands, and nothing else.
    for policy in ["deploy = no\n", "deploy\t=\tno\r\n", "deploy = No\n"] {
        fs::remove_file(sandbox.path("there")).unwrap();
        write_policy(&remote, policy);
        push(&sandbox, &remote, &[]).run().ends(3).says(["haul/policy forbids it"]);
        assert!(!sandbox.path("there").exists(), "{policy:?}");
        write_policy(&remote, "deploy = yes\n");
        push(&sandbox, &remote, &[]).run().succeeds().does_not_say(".cache/haul");
    }
}
