//! Gives every target what becomes of its corpus at random, for some seconds each, and watches what it allocates. Nobody
//! looks at coverage here: that is cargo-fuzz's part (`cargo xtask fuzz`), which needs another toolchain.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_fuzz::{TARGETS, Target, mutate};
use haul_lab::{Rng, cases, count};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Seconds for each target, unless `HAUL_FUZZ_SECONDS` says otherwise.
const SECONDS: u64 = 1;
/// Most bytes that a target may have allocated at a time, whatever its input: of inputs of at most 8 KiB, what is made
/// of one is bounded by the limits of the protocol. What C code allocates (zstd) is not seen.
const MEMORY_MAX: usize = 4 << 20;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let listing = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = listing.map(|file| file.expect("an entry of the directory").path()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("a file of the corpus")).collect()
}

/// What an input did to a target.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Panicked,
    /// It allocated more than it may.
    Greedy,
}

/// What became of all inputs of a target.
#[derive(Debug, Default)]
struct Fuzzed {
    inputs: u64,
    /// Most bytes that were allocated for one.
    memory_bytes: usize,
    /// The first that it did not take, with its seed.
    broken: Option<(u64, Vec<u8>, Verdict)>,
}

/// Also, how many bytes it allocated.
fn judge(target: Target, input: &[u8]) -> (Verdict, usize) {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let fine = catch_unwind(AssertUnwindSafe(|| target(input))).is_ok();
    let allocated = MEMORY.peak_usage().saturating_sub(before);
    let verdict = match fine {
        false => Verdict::Panicked,
        true if allocated > MEMORY_MAX => Verdict::Greedy,
        true => Verdict::Fine,
    };
    (verdict, allocated)
}

/// Gives `target` changed inputs for this time, or until it does not take one.
fn fuzz(target: Target, inputs: &[Vec<u8>], time: Duration) -> Fuzzed {
    let (begun, mut fuzzed) = (Instant::now(), Fuzzed::default());
    while begun.elapsed() < time && fuzzed.broken.is_none() {
        let seed = fuzzed.inputs;
        let input = mutate(&mut Rng::new(seed), inputs);
        let (verdict, memory_bytes) = judge(target, &input);
        fuzzed.inputs += 1;
        fuzzed.memory_bytes = fuzzed.memory_bytes.max(memory_bytes);
        if verdict != Verdict::Fine {
            fuzzed.broken = Some((seed, input, verdict));
        }
    }
    fuzzed
}

/// Keeps an input that breaks something where cargo-fuzz keeps its own.
fn keep(name: &str, seed: u64, input: &[u8]) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
    let path = directory.join(format!("mutated-{seed}"));
    std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, input)).expect("it can be kept");
    path
}

/// One test, one after the other: what others allocate would count as well.
#[test]
fn every_target_takes_what_becomes_of_its_corpus_and_what_breaks_a_rule_is_noticed() {
    noticed();
    let seconds = cases("HAUL_FUZZ_SECONDS", SECONDS);
    for (name, target) in TARGETS {
        let Fuzzed { inputs, memory_bytes, broken } = fuzz(target, &corpus(name), Duration::from_secs(seconds));
        if let Some((seed, input, verdict)) = broken {
            let kept = keep(name, seed, &input);
            panic!("{name}, seed {seed}: {verdict:?}, {memory_bytes} bytes; the input is {}", kept.display());
        }
        println!("{name}: {inputs} inputs, at most {memory_bytes} bytes allocated");
        count("fuzz-inputs", inputs);
    }
    count("fuzz-seconds-each", seconds);
}

/// The harness can lose.
fn noticed() {
    let corpus = vec![vec![1; 20], vec![2; 20]];
    let panics: Target = |data| assert!(data.len() < 2 || data[0] != 1 || data[data.len() - 1] != 2, "planted");
    let greedy: Target = |data| drop(Vec::<u8>::with_capacity(if data.len() > 30 { MEMORY_MAX + 1 } else { 1 }));
    let time = Duration::from_secs(60);
    assert!(matches!(fuzz(panics, &corpus, time).broken, Some((.., Verdict::Panicked))));
    assert!(matches!(fuzz(greedy, &corpus, time).broken, Some((.., Verdict::Greedy))));
}
