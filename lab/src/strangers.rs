//! Unauthorised clients of a port: connections with wrong data, and silent or slow ones.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{Netns, Rng, Seen};

/// Threads that connect.
const THREADS: u64 = 4;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two bytes of one that is slow.
const PAUSE: Duration = Duration::from_millis(100);

/// The strangers' results.
#[derive(Debug, Default)]
pub struct Answers {
    /// Connections that were made, said something and were closed.
    pub refused: AtomicU64,
    /// The most bytes that one stranger received.
    pub longest: AtomicU64,
}

/// Makes `number` connections in `netns` to the address in `seen`, each with wrong data. `seen` is the start of a valid
/// connection with a greeting of `greeting` bytes. The strangers send it again, changed or truncated.
pub fn knock(netns: &Netns, seen: &Seen, greeting: usize, number: u64) -> Result<Answers> {
    let (answers, next) = (Answers::default(), AtomicU64::new(0));
    netns.enter(|| {
        let inside = netns.inside()?;
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| -> Result<()> {
                    inside.enter()?;
                    loop {
                        let seed = next.fetch_add(1, Ordering::SeqCst);
                        if seed >= number {
                            return Ok(());
                        }
                        let answer = knock_once(seen.address, &wrong(&seen.bytes, greeting, &mut Rng::new(seed)));
                        answers.refused.fetch_add(1, Ordering::SeqCst);
                        answers.longest.fetch_max(answer, Ordering::SeqCst);
                    }
                });
            }
        });
        anyhow::Ok(())
    })??;
    Ok(answers)
}

/// Bytes that are wrong in one of the ways there are.
fn wrong(right: &[u8], greeting: usize, rng: &mut Rng) -> Vec<u8> {
    let (first, rest) = right.split_at(greeting.min(right.len()));
    let noise = rng.index(4000);
    match rng.below(6) {
        0 => rng.bytes(noise),
        // The whole of it again.
        1 => right.to_vec(),
        // A valid greeting, then data sealed with no key.
        2 => [first, &rng.bytes(rest.len().min(2000))].concat(),
        // A greeting of one's own, and then the other's records.
        3 => {
            let mut own = first.to_vec();
            let random = own.len().saturating_sub(32);
            rng.fill(&mut own[random..]);
            [&own[..], rest].concat()
        }
        // A bit of it is wrong.
        4 => {
            let mut bent = right.to_vec();
            let at = rng.index(first.len().max(1));
            bent.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.below(8));
            bent
        }
        _ => right[..rng.index(right.len().max(1))].to_vec(),
    }
}

/// Says this, and reads to the end; how many bytes came. One that is refused before it has said all was refused, too.
fn knock_once(address: SocketAddrV4, words: &[u8]) -> u64 {
    let Ok(mut socket) = TcpStream::connect(address) else { return 0 };
    let _ = socket.set_read_timeout(Some(PATIENCE)).and_then(|()| socket.write_all(words));
    let _ = socket.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    answer.len() as u64
}

/// Connections that are silent or slow, as long as this value lives.
#[derive(Debug)]
pub struct Loiterers(Arc<AtomicBool>);

impl Loiterers {
    /// Makes `number` connections to the address in `seen`: every second one is silent, the others send valid data a
    /// byte at a time. A closed connection is opened again.
    pub fn start(netns: &Netns, seen: &Seen, number: u64) -> Result<Self> {
        let (inside, seen, stop) = (netns.inside()?, seen.clone(), Arc::new(AtomicBool::new(false)));
        let its_stop = Arc::clone(&stop);
        let loiter = move || -> Result<()> {
            inside.enter()?;
            let mut sockets: Vec<Option<TcpStream>> =
                (0..number).map(|_| TcpStream::connect(seen.address).ok()).collect();
            let mut said = 0;
            while !its_stop.load(Ordering::SeqCst) {
                for slow in sockets.iter_mut().skip(1).step_by(2) {
                    let byte = seen.bytes.get(said..=said).unwrap_or(&[0]);
                    let lives = slow.as_mut().is_some_and(|socket| socket.write_all(byte).is_ok());
                    if !lives {
                        *slow = TcpStream::connect(seen.address).ok();
                    }
                }
                said += 1;
                thread::sleep(PAUSE);
            }
            Ok(())
        };
        thread::Builder::new().name("lab-loiterers".into()).spawn(loiter).context("a thread")?;
        Ok(Self(stop))
    }
}

impl Drop for Loiterers {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
