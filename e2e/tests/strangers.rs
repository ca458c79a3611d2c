//! Strangers at the port of a running copy: none is accepted, none disturbs the copy, and the data arrives unchanged.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use haul_e2e::{
    Loiterers, Netns, ProgramRun, Proxy, RUN_LIMIT, Sandbox, Seen, cases, compare, count, eventually, haul_binary,
    is_root_or_skip, knock, within,
};
use rustix::process::Signal;

/// Bytes of a greeting and of the answer to one (`docs/PROTOCOL.md`, section 8).
const GREETING_BYTES: usize = 62;
const ANSWER_BYTES: u64 = 42;
/// Most attempts during one copy of about a minute.
const KNOCKS_MAX: u64 = 5000;

#[test]
fn strangers_at_the_port_are_not_accepted_and_delay_nothing() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let (knocks, loiterers) = (cases("HAUL_KNOCKS", 1000), cases("HAUL_LOITERERS", 200));
    let mut left = knocks;
    while left > 0 {
        let now = left.min(KNOCKS_MAX);
        copy_among_strangers(now, loiterers);
        left -= now;
    }
    count("strangers-with-wrong-keys", knocks);
    count("strangers-that-are-slow-or-silent", loiterers);
}

fn copy_among_strangers(knocks: u64, loiterers: u64) {
    let sandbox = Sandbox::new();
    let netns = Netns::create().unwrap();
    let proxy = Proxy::start(&netns).unwrap();
    let source = sandbox.big_file("source", 60_000_000);
    let haul = haul_binary();
    let (worker, there) = (haul.to_str().unwrap(), sandbox.path("there"));
    let to = format!("{}:{}", Proxy::ADDRESS, there.display());
    // Slow enough to outlast all of them; and with a growing number of streams, to keep the port open.
    let mut running =
        sandbox.haul(["--xfrrate", "1m", "--target-command", worker, "source", &to]).netns(&netns).start();
    eventually("the copy sends data", || proxy.seen().iter().any(|seen| seen.bytes.len() > 1000));
    let seen = proxy.seen().into_iter().find(|seen| seen.bytes.len() > 1000).unwrap();

    // While others loiter, there is no room to be heard in: so most of them come before.
    let heard = knocks - knocks / 10;
    let knocking = |number| knock(&netns, &seen, GREETING_BYTES, number).unwrap_or_else(|error| panic!("{error:#}"));
    let answers = knocking(heard);
    let _loiterers = Loiterers::start(&netns, &seen, loiterers).unwrap();
    let unheard = knocking(knocks - heard);
    assert!(!there.exists(), "the copy was over before all strangers had come");
    // Each signal doubles the limit.
    assert!(within(RUN_LIMIT, || {
        running.signal(Signal::USR1);
        running.wait_up_to(Duration::from_millis(50))
    }));
    assert_eq!(answers.refused.load(Ordering::SeqCst) + unheard.refused.load(Ordering::SeqCst), knocks);
    // A valid greeting is answered; data sealed with no key is not.
    assert_eq!(answers.longest.load(Ordering::SeqCst), ANSWER_BYTES);
    assert!(unheard.longest.load(Ordering::SeqCst) <= ANSWER_BYTES, "{unheard:?}");
    let run = ProgramRun::of(running).succeeds();
    compare(&source, &there).unwrap_or_else(|error| panic!("{error:#}\n{}", run.account()));
}

/// The harness sees who gets in: with a greeting that is right, the answer comes.
#[test]
fn an_answered_stranger_is_noticed() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let netns = Netns::create().unwrap();
    let listener = netns.enter(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
    let Ok(SocketAddr::V4(address)) = listener.local_addr() else { panic!("an address of another kind") };
    let welcoming = thread::spawn(move || {
        listener.incoming().take(8).flatten().for_each(|mut stranger| drop(stranger.write_all(&[b'x'; 100])));
    });
    let seen = Seen { address, bytes: vec![b'r'; 200] };
    let answers = knock(&netns, &seen, GREETING_BYTES, 8).unwrap();
    welcoming.join().unwrap();
    assert!(answers.longest.load(Ordering::SeqCst) > ANSWER_BYTES, "{answers:?}");
}
