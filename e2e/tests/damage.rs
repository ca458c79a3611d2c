//! Bit flips between the two ends: the data arrives unchanged, or the copy fails with a message. No file is ever wrong.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, thread};

use haul_e2e::{
    Flip, Netns, ProgramRun, Proxy, Rng, Sandbox, Towards, cases, compare, count, haul_binary, is_root_or_skip, listing,
};

/// The accepting end's bytes on a stream: an answer, and a Finished.
const ANSWER_BYTES: u64 = 42 + 25;
/// One in this many flips hits the accepting end's bytes.
const ANSWERS_PART: u64 = 8;

/// Hosts, each with its own proxy: a failing copy mostly waits, so many can run at once.
const LANES: u64 = 8;

/// A place where copies go from one worker to another through a proxy.
struct Lane<'a> {
    sandbox: &'a Sandbox,
    // Declared first, to be dropped before its network.
    proxy: Proxy,
    netns: Netns,
    there: PathBuf,
}

impl<'a> Lane<'a> {
    fn new(sandbox: &'a Sandbox, number: u64) -> Self {
        let netns = Netns::create().unwrap_or_else(|error| panic!("{error:#}"));
        let proxy = Proxy::start(&netns).unwrap_or_else(|error| panic!("{error:#}"));
        Self { sandbox, proxy, netns, there: sandbox.path(format!("there-{number}")) }
    }

    /// A copy of `source` under these conditions.
    fn copy(&self, flip: Option<Flip>, options: &[&str]) -> ProgramRun {
        fs::remove_dir_all(&self.there).unwrap_or_default();
        self.proxy.flip(flip);
        let (haul, target) = (haul_binary(), format!("{}:{}", Proxy::ADDRESS, self.there.display()));
        let worker = haul.to_str().expect("a path of text");
        // Compressed data would end before the flips; retries would hide a detected flip.
        let haul = self
            .sandbox
            .haul(["-r", "-s", "2", "--compress", "off", "--retries", "0", "--target-command", worker])
            .args(options);
        haul.args(["source", &target]).netns(&self.netns).run()
    }

    /// Copies with one bit flipped; a copy sends `forth_bytes`. Returns whether it failed, a permitted result.
    fn copy_damaged(&self, seed: u64, source: &Path, forth_bytes: u64) -> bool {
        let mut rng = Rng::new(seed);
        let (towards, bytes) = match rng.below(ANSWERS_PART) {
            0 => (Towards::Connector, ANSWER_BYTES),
            _ => (Towards::Acceptor, forth_bytes),
        };
        let bit = u8::try_from(rng.below(8)).expect("below 8");
        let flip = Flip { towards, byte: rng.below(bytes), bit };
        let options: &[&str] = if rng.chance(500) { &["--no-encrypt"] } else { &[] };
        let run = self.copy(Some(flip), options);
        assert!(is_honest(&run, source, &self.there), "seed {seed}, {flip:?}\n{}", run.account());
        run.status != Some(0)
    }
}

/// Whether every file in `there` equals the one in `source`.
fn are_right(source: &Path, there: &Path) -> bool {
    let is_unfinished = |name: &str| name.starts_with(".haul-");
    let names = if there.exists() { listing(there) } else { Vec::new() };
    names.iter().filter(|name| !is_unfinished(name)).all(|name| {
        let (ours, theirs) = (source.join(name), there.join(name));
        match theirs.is_dir() {
            true => are_right(&ours, &theirs),
            false => fs::read(ours).ok() == fs::read(theirs).ok(),
        }
    })
}

/// Whether a run ended as it may: with everything there, or with a failure, and never with a wrong file.
fn is_honest(run: &ProgramRun, source: &Path, there: &Path) -> bool {
    let complete = || compare(source, there).is_ok();
    let explained = || !run.stderr.is_empty() && !run.stderr.contains("bug");
    match run.status {
        Some(0) => complete(),
        Some(_) => are_right(source, there) && explained(),
        None => false,
    }
}

#[test]
fn a_flipped_bit_never_makes_a_wrong_file() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let source = sandbox.dir("source");
    sandbox.big_file("source/large", 1_500_000);
    (0..40).for_each(|number| drop(sandbox.big_file(format!("source/small/{number}"), 1000 * number)));
    let lanes: Vec<_> = (0..LANES).map(|number| Lane::new(&sandbox, number)).collect();
    lanes[0].copy(None, &[]).succeeds();
    compare(&source, &lanes[0].there).unwrap();
    let forth_bytes = lanes[0].proxy.passed(Towards::Acceptor);
    assert!(forth_bytes > 2_000_000, "{forth_bytes} bytes went through the proxy");

    let flips = cases("HAUL_PROXY_FLIPS", 200);
    let flipped = || lanes.iter().map(|lane| lane.proxy.flipped()).sum::<u64>();
    let (seeds, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for lane in &lanes {
            scope.spawn(|| {
                while flipped() < flips {
                    let seed = seeds.fetch_add(1, Ordering::SeqCst);
                    assert!(seed < 2 * flips + 100, "the proxies flip no bits");
                    failed.fetch_add(lane.copy_damaged(seed, &source, forth_bytes).into(), Ordering::SeqCst);
                }
            });
        }
    });
    println!("{} copies, of which {} failed", seeds.into_inner(), failed.into_inner());
    count("bits-flipped-through-a-proxy", flipped());
}

/// The harness detects the damage that haul must prevent: the same proxy between two ends without verification.
#[test]
fn the_harness_detects_an_unverified_wrong_copy() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let Lane { proxy, netns, .. } = &Lane::new(&sandbox, 0);
    let (source, there) = (sandbox.dir("source"), sandbox.dir("there"));
    let content = fs::read(sandbox.big_file("source/file", 100_000)).unwrap();
    for flip in [None, Some(Flip { towards: Towards::Acceptor, byte: 77_777, bit: 3 })] {
        proxy.flip(flip);
        let received = netns.enter(|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            thread::scope(|scope| {
                scope.spawn(|| TcpStream::connect((Proxy::ADDRESS, port)).unwrap().write_all(&content).unwrap());
                let mut received = Vec::new();
                listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
                received
            })
        });
        fs::write(there.join("file"), received.unwrap()).unwrap();
        assert_eq!(are_right(&source, &there), flip.is_none());
    }
}

#[test]
fn a_record_with_an_inflated_length_does_not_block_the_copy() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let source = sandbox.dir("source");
    sandbox.big_file("source/only", 200_000);
    let lane = Lane::new(&sandbox, 0);
    // The one Data record's length of payload, behind greeting and Finished: 256 KiB more.
    let flip = Flip { towards: Towards::Acceptor, byte: 62 + 25 + 2, bit: 2 };
    let run = lane.copy(Some(flip), &["-s", "1"]);
    assert!(is_honest(&run, &source, &lane.there), "{}", run.account());
    assert_eq!(lane.proxy.flipped(), 1);
}
