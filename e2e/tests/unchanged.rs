//! What an unchanged file costs in a sync: system calls, which need no timing.

use std::collections::BTreeMap;
use std::fs;

use haul_e2e::Sandbox;

/// Most system calls for an unchanged file, at both ends together.
const CALLS_MAX: f64 = 2.6;

/// Calls by which threads wait for each other, and allocate: under strace, these depend on its pace.
const OF_THREADS: [&str; 9] =
    ["futex", "clone", "clone3", "rt_sigprocmask", "sigaltstack", "sched_getaffinity", "mprotect", "madvise", "mmap"];

/// System calls of a sync of so many unchanged files, by name.
fn calls(files: usize) -> BTreeMap<String, f64> {
    let sandbox = Sandbox::new();
    for file in 0..files {
        sandbox.file(format!("s/d{}/f{file}", file % 4), "unchanged");
    }
    sandbox.haul(["sync", "--delete", "s/", "t/"]).run().succeeds();
    let table = sandbox.path("calls");
    let copy = sandbox.haul(["sync", "--delete", "s/", "t/"]).counting_calls(&table).run().succeeds();
    assert!(copy.stdout.is_empty(), "{}", copy.account());
    let table = fs::read_to_string(table).unwrap();
    let row = |line: &str| {
        let (calls, name) = line.trim().split_once(char::is_whitespace)?;
        Some((name.trim().to_owned(), calls.parse().ok()?))
    };
    table.lines().filter_map(row).filter(|(name, _)| name != "total").collect()
}

#[test]
fn an_unchanged_file_costs_one_stat_at_each_end() {
    const FEW: usize = 400;
    const MORE: usize = 4000;
    let (few, more) = (calls(FEW), calls(MORE));
    let per_file = more
        .iter()
        .filter(|(name, _)| !OF_THREADS.contains(&name.as_str()))
        .map(|(name, count)| (name, (count - few.get(name).copied().unwrap_or(0.0)) / (MORE - FEW) as f64));
    let per_file: BTreeMap<_, _> = per_file.collect();
    let total: f64 = per_file.values().sum();
    assert!(total <= CALLS_MAX, "{total:.2} system calls for each unchanged file: {per_file:.3?}");
    assert!(total > 1.5, "strace has missed some: {per_file:.3?}");
}
