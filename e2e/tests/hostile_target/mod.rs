//! Far workers that break every rule, against a controller and its near worker of the real program. Nothing outside the
//! copy is read or changed, no process takes much memory, and no claim about the other end is believed. The copy ends
//! within seconds, with a message and without a panic.

mod messages;
mod reports;
mod scene;
mod streams;

use std::io;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haul_e2e::{FakeLink, ProgramRun, Rng, cases, count};
use haul_proto::wire::report::{SkipReport, WorkerMessage};
use scene::{MEMORY_MAX, Scene, Way};

/// Every attack is over by then, on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(25);

/// The expected result of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A named protocol fault, without a retry of the copy.
    Fault,
    /// The copy fails with words.
    Fails,
    /// The copy ends as usual.
    Succeeds,
    /// Either.
    Ends,
}

/// Plays the far worker. An error says that the controller has closed the link.
type Play = fn(&mut Scene, &mut FakeLink, &mut Rng) -> io::Result<()>;

/// One attack, in as many forms as there are random numbers.
struct Attack {
    name: &'static str,
    way: Way,
    /// Options of the copy besides.
    options: &'static [&'static str],
    expect: Expect,
    play: Play,
}

fn attacks() -> impl Iterator<Item = &'static Attack> {
    reports::ATTACKS.iter().chain(messages::ATTACKS).chain(streams::ATTACKS)
}

/// Carries one attack out and holds the program to all that it promises.
fn hold(seed: u64, attack: &Attack) {
    let Attack { name, way, options, expect, play } = attack;
    let mut rng = Rng::new(seed);
    let mut scene = Scene::start(*way, options);
    let outside = scene.outside();
    let mut link = scene.link();
    // Its end is the controller's to bring about.
    let played = play(&mut scene, &mut link, &mut rng);
    link.close();
    let (run, memory) = scene.end();
    // A flood is not to be read.
    let said: String = run.stderr.trim().chars().take(400).collect();
    if std::env::var_os("HAUL_HOSTILE_SHOWN").is_some() {
        println!(
            "{seed} {name}: {:?}, {:?}, {played:?}, {} MiB: {}",
            run.status,
            run.elapsed,
            memory >> 20,
            run.stderr.trim()
        );
    }
    let account = || {
        let out: String = run.stdout.chars().take(400).collect();
        let ProgramRun { status, elapsed, .. } = &run;
        format!("seed {seed}, {name}: {played:?}\nstatus {status:?}, {elapsed:?}\nstdout: {out}\nstderr: {said}")
    };
    assert!(!run.timed_out && run.elapsed < TIME_MAX, "{}", account());
    let status = run.status.unwrap_or_else(|| panic!("no status\n{}", account()));
    match expect {
        Expect::Fault => assert!(status == 1 && run.stderr.contains("haul"), "{}", account()),
        Expect::Fails => assert!((1..=4).contains(&status) && !run.stderr.is_empty(), "{}", account()),
        Expect::Succeeds => assert_eq!(status, 0, "{}", account()),
        Expect::Ends => assert!((0..=4).contains(&status), "{}", account()),
    }
    assert!(!run.stderr.contains("panicked"), "{}", account());
    let is_clean = |text: &str| text.chars().all(|c| c == '\n' || !haul_proto::path::disturbs(c));
    assert!(is_clean(&run.stdout) && is_clean(&run.stderr), "{}", account());
    assert_eq!(scene.outside(), outside, "something outside was read or changed\n{}", account());
    // Checksums go there.
    assert!(!run.stdout.contains("etc/passwd"), "{}", account());
    let planted = |name: &std::path::PathBuf| name.to_string_lossy().contains("planted");
    assert!(!scene.names().iter().any(planted), "{}", account());
    assert!(memory < MEMORY_MAX, "{memory} bytes of memory\n{}", account());
}

/// Further lines of a kind than a thousand are counted, and ten failures are shown.
#[test]
fn a_flood_of_reports_is_summed_up() {
    let mut scene = Scene::start(Way::Push, &["-f", "--delete"]);
    let mut link = scene.link();
    scene.begin(&mut link).expect("it begins");
    for number in 0..1500 {
        let text = format!("notice {number}");
        link.report(&WorkerMessage::Warning { text: text.clone() }).expect("it listens");
        let path = format!("/far/target/{number}").into_bytes();
        link.report(&WorkerMessage::FileFailed { path, text: text.clone() }).expect("it listens");
        let path = format!("/far/target/{number}").into_bytes();
        link.report(&WorkerMessage::Skipped(SkipReport { path, reason: text })).expect("it listens");
    }
    link.drain();
    link.close();
    let (run, _) = scene.end();
    let shown = run.stderr.lines().filter(|line| line.starts_with("haul: ") && line.contains(": notice ")).count();
    assert_eq!(shown, 2010, "{}", run.stderr);
    for words in ["500 more notices not shown", "500 more skipped entries not shown", "1,490 more failures: "] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
}

#[test]
fn a_hostile_worker_is_not_believed_and_the_copy_ends() {
    let number = cases("HAUL_HOSTILE_TARGET", 150);
    let all: Vec<_> = attacks().collect();
    let only = std::env::var("HAUL_HOSTILE_ONLY").ok();
    let next = AtomicU64::new(0);
    let lost = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= number {
                        return;
                    }
                    let attack = all[usize::try_from(seed).unwrap_or(0) % all.len()];
                    let is_wanted = only.as_ref().is_none_or(|only| attack.name.contains(only.as_str()));
                    if is_wanted && catch_unwind(|| hold(seed, attack)).is_err() {
                        lost.lock().expect("no thread panics with it").push(format!("{seed}: {}", attack.name));
                    }
                }
            });
        }
    });
    let lost = lost.into_inner().expect("no thread panics with it");
    assert!(lost.is_empty(), "{} attacks succeeded: {lost:#?}", lost.len());
    count("hostile-targets", number);
}

#[test]
fn the_harness_detects_a_successful_attack() {
    let mut scene = Scene::start(Way::Push, &[]);
    let outside = scene.outside();
    assert_eq!(scene.outside(), outside);
    std::fs::read(scene.sandbox.path("outside/secret")).unwrap();
    assert_ne!(scene.outside(), outside, "reading is not seen: is this file system mounted with noatime?");
    let mut link = scene.link();
    scene.be_target(&mut link).unwrap();
    scene.finish_without_data(&mut link).unwrap();
    let (run, memory) = scene.end();
    assert_eq!(run.status, Some(0), "{}", run.account());
    assert!(memory > 1 << 20, "memory is not seen: {memory}");
    // Where the far worker speaks for the near one only when it is its turn, it is believed.
    assert!(run.stderr.contains("4"), "{}", run.account());
}
