//! The tracer that takes instructions from a CPU leaves everything else as it is. It waits for all children of its
//! process, so it is tried as a process of its own.
#![cfg(target_arch = "x86_64")]

use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn run(program: &str, args: &[&str]) -> haul_lab::Finished {
    let mut command = Command::new(program);
    command.args(args);
    haul_lab::run_with_timeout(command, LIMIT).expect("it starts")
}

fn traced(script: &str) -> haul_lab::Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul-bench"));
    command.args(["old-cpu", "sh", "-c", script]);
    haul_lab::run_with_timeout(command, LIMIT).expect("it starts")
}

#[test]
fn children_signals_and_exit_statuses_are_as_without_a_tracer() {
    assert_eq!(traced("sh -c 'sh -c \"exit 3\"'").code(), Some(3));
    assert_eq!(traced("trap 'exit 7' USR1; (kill -USR1 $$); while :; do sleep 0.01; done").code(), Some(7));
    assert_eq!(traced("kill -TERM $$").code(), Some(143));
    assert_eq!(traced("echo out; yes | head -n 1").stdout_text(), "out\ny\n");
}

#[test]
fn newer_instructions_are_hidden_and_older_ones_are_not() {
    let own = env!("CARGO_BIN_EXE_haul-bench");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = directory.path().to_str().expect("text");
    let unmasked = run(own, &["old-cpu", "--features"]).stdout_text();
    let newest: [(&str, &[&str]); 3] = [
        ("vaes", &["aes", "avx", "avx2", "vaes", "vpclmulqdq"]),
        ("avx2", &["aes", "avx", "avx2"]),
        ("avx", &["aes", "avx"]),
    ];
    for (level, kept) in newest {
        let installed = run(own, &["old-cpu", "--install", own, at, level]);
        assert!(installed.success(), "{}", installed.stderr_text());
        let masked = run(installed.stdout_text().trim(), &["old-cpu", "--features"]).stdout_text();
        let older = unmasked.split_whitespace().filter(|name| kept.contains(name));
        assert_eq!(masked.trim(), older.collect::<Vec<_>>().join(" "), "{level}");
    }
    // Without its tracer there is no answer at all: SIGILL.
    let alone = run(&format!("{at}/haul-bench-without-cpuid"), &["old-cpu", "--features"]);
    assert!(!alone.success() && alone.stdout_text().is_empty(), "{}", alone.stdout_text());
}
