//! Authenticated peers that change one thing: real sessions between real ends, with one record or one message mutated
//! after decryption, in each direction and behind `haul serve`. In all cases, nothing outside changes, no wrong file
//! gets its name if an end can know it, and both ends stop in time, with a message and without a panic.

mod mutation;
mod relay;
mod session;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_e2e::{Rng, Sandbox, ServedShare, WORKER_MEMORY_MAX, assert_bounded_memory, cases, count};
use mutation::{Lane, Mutation, Mutator};
use session::{Outcome, Session, Work};

/// How many items each lane of a session has that nobody mutates.
type Lengths = [u64; Lane::ALL.len()];

/// A mutator that changes nothing, and counts.
fn nothing() -> Mutator {
    Mutator::new(Lane::Record, u64::MAX - 1, Mutation::Repeat, Rng::new(0))
}

/// Runs this work without a mutation: it succeeds, and its result is right.
fn lengths(sandbox: &Sandbox, work: Work, server: Option<&ServedShare>) -> Lengths {
    let session = Session::new(sandbox, format!("plain-{work:?}"), work, server);
    let before = session.inside();
    let Outcome { run, worker, memory, said, state } = session.run(nothing());
    assert!(memory > 1 << 20, "memory is not seen: {memory}");
    let status = if work == Work::Verify { 1 } else { 0 };
    assert!(run.status == Some(status) && worker == Some(0), "{work:?} {worker:?}: {said}\n{}", run.account());
    assert_eq!(session.wrong(&before, work != Work::Verify), None, "{work:?}\n{}", run.account());
    state.with(|mutator| mutator.seen())
}

/// Mutates one item of one session and holds both ends to all that they promise. Whether the item came at all.
///
/// The number of messages depends on timing. A session without the item is repeated with one of its own items.
fn hold(sandbox: &Sandbox, seed: u64, lengths: &[(Work, Lengths)], server: Option<&ServedShare>) -> bool {
    let mut rng = Rng::new(seed);
    let (work, mut lengths) = lengths[usize::try_from(seed).unwrap_or(0) % lengths.len()];
    let lanes: Vec<_> = Lane::ALL.into_iter().filter(|lane| lengths[*lane as usize] > 0).collect();
    let lane = rng.pick(&lanes);
    let mutation = rng.pick(&Mutation::ALL);
    (0..3).any(|attempt| {
        let items = lengths[lane as usize].max(1);
        let at = rng.below(items);
        let session = Session::new(sandbox, format!("s{seed}-{attempt}"), work, server);
        let what = format!("seed {seed}: {mutation:?} of item {at} of {items}, {lane:?}, {work:?}");
        let mutator = Mutator::new(lane, at, mutation, Rng::new(rng.below(u64::MAX)));
        let (came, seen) = hold_session(&session, work, mutator, mutation.keeps_contents(lane), &what);
        lengths = seen;
        came
    })
}

/// Runs one session of [`hold`]. Whether the item came, and the numbers of items.
fn hold_session(session: &Session, work: Work, mutator: Mutator, keeps_contents: bool, what: &str) -> (bool, Lengths) {
    let (outside, before) = (session.outside(), session.inside());
    let Outcome { run, worker, memory, said, state } = session.run(mutator);
    let account = || format!("{what}\nworker {worker:?}: {said}\n{}", run.account());
    if std::env::var_os("HAUL_MUTATIONS_SHOWN").is_some() {
        println!("{what}: {:?} {worker:?} {:?}: {}", run.status, run.elapsed, run.stderr.trim());
    }
    assert!(!run.timed_out && run.status.is_some_and(|status| (0..=4).contains(&status)), "{}", account());
    assert!(worker.is_some_and(|status| (0..=4).contains(&status)), "{}", account());
    assert!(!run.stderr.contains("panicked") && !said.contains("panicked"), "{}", account());
    assert!(memory <= WORKER_MEMORY_MAX, "{memory} bytes of memory\n{}", account());
    assert!(run.status == Some(0) || !run.stderr.is_empty(), "{}", account());
    let is_clean = |text: &str| text.chars().all(|c| c == '\n' || !haul_proto::path::disturbs(c));
    assert!(is_clean(&run.stdout) && is_clean(&run.stderr), "{}", account());
    assert!(session.outside() == outside, "something outside has changed\n{}", account());
    let inside = session.inside();
    assert_eq!(session::odd(&inside), None, "{}", account());
    if work == Work::Verify {
        assert!(inside == before, "a comparison has changed something\n{}", account());
    }
    if keeps_contents && work != Work::Verify {
        assert_eq!(session.wrong(&before, run.status == Some(0)), None, "{}", account());
    }
    let _ = std::fs::remove_dir_all(session.landing());
    state.with(|mutator| (mutator.has_mutated(), mutator.seen()))
}

/// So many seeds, by two threads. Those that were lost are named.
fn hold_all(sandbox: &Sandbox, number: u64, server: Option<&ServedShare>) {
    let works = if server.is_some() { &Work::SERVED[..] } else { &Work::ALL };
    let lengths: Vec<_> = works.iter().map(|work| (*work, lengths(sandbox, *work, server))).collect();
    let first = cases("HAUL_MUTATION_SEED", 0);
    let (next, mutated) = (AtomicU64::new(first), AtomicU64::new(0));
    let lost = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= first + number {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| hold(sandbox, seed, &lengths, server))) {
                        Ok(came) => drop(mutated.fetch_add(u64::from(came), Ordering::SeqCst)),
                        Err(_) => lost.lock().expect("no thread panics with it").push(seed),
                    }
                }
            });
        }
    });
    let lost = lost.into_inner().expect("no thread panics with it");
    assert!(lost.is_empty(), "{} of {number} seeds: {lost:?}", lost.len());
    let mutated = mutated.into_inner();
    assert!(mutated * 10 >= number * 8, "only {mutated} of {number} items came");
}

fn place() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("outside/canary", "as it was");
    sandbox
}

#[test]
fn any_mutation_ends_both_ends_with_a_message_and_no_wrong_file_gets_a_name() {
    let number = cases("HAUL_MUTATIONS", 120);
    hold_all(&place(), number, None);
    count("mutated-sessions", number);
}

#[test]
fn a_served_worker_resists_a_clients_mutations() {
    let sandbox = place();
    let number = cases("HAUL_MUTATIONS_SERVED", 40);
    let server = ServedShare::start(&sandbox, &["--clients", "64"]);
    hold_all(&sandbox, number, Some(&server));
    assert_bounded_memory(server.end().succeeds().peak_memory_bytes, "a served worker");
    count("mutated-served-sessions", number);
}
