//! A man in the middle: a TCP proxy in a network namespace for all connections to one address. It records the start of
//! each connection, and flips bits on request.

use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::ip_original_dst;

use crate::Netns;

/// How often it looks whether it is to end.
const ROUND: Duration = Duration::from_millis(50);
/// Bytes that are passed on at a time.
const PIECE_BYTES: usize = 64 << 10;
/// How much of a connection's beginning it remembers.
const SEEN_MAX: usize = 4096;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// From the end that connected.
    Acceptor,
    /// From the end that was connected to.
    Connector,
}

/// A bit that is to flip.
#[derive(Debug, Clone, Copy)]
pub struct Flip {
    /// The direction to change.
    pub towards: Towards,
    /// In this byte, counted over all connections since [`Proxy::flip`].
    pub byte: u64,
    /// 0 to 7.
    pub bit: u8,
}

/// A connection's first bytes from the end that made it, and where it went.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Where it is accepted, for those who do not want to go through the proxy.
    pub address: SocketAddrV4,
    /// Up to 4 KiB.
    pub bytes: Vec<u8>,
}

/// The running proxy. It ends in `Drop`, and so does every connection through it.
#[derive(Debug)]
pub struct Proxy(Arc<ProxyState>);

#[derive(Debug, Default)]
struct ProxyState {
    stop: AtomicBool,
    /// Bytes that went either way.
    passed: [AtomicU64; 2],
    plan: Mutex<Vec<Flip>>,
    flipped: AtomicU64,
    seen: Mutex<Vec<Seen>>,
}

impl Proxy {
    /// Connections to this address pass the proxy, and continue to the same port of 127.0.0.1.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

    /// Starts the proxy in `netns`; one at most.
    pub fn start(netns: &Netns) -> Result<Self> {
        let listener =
            netns.enter(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a port for the proxy"))??;
        listener.set_nonblocking(true)?;
        let (address, port) = (Self::ADDRESS, listener.local_addr()?.port());
        netns.nft(&format!(
            "table ip proxy {{ chain out {{ type nat hook output priority -100; ip daddr {address} meta l4proto tcp redirect to :{port}; }}; }}"
        ))?;
        let shared = Arc::new(ProxyState::default());
        let its = Arc::clone(&shared);
        let inside = netns.inside()?;
        thread::Builder::new()
            .name("lab-proxy".into())
            .spawn(move || inside.enter().map(|()| its.accept(&listener)))?;
        Ok(Self(shared))
    }

    /// Plans these flips, instead of any that were planned before, and begins to count bytes.
    pub fn flip(&self, flips: impl IntoIterator<Item = Flip>) {
        *lock(&self.0.plan) = flips.into_iter().collect();
        self.0.passed.iter().for_each(|passed| passed.store(0, Ordering::SeqCst));
    }

    /// How many bits it has flipped.
    pub fn flipped(&self) -> u64 {
        self.0.flipped.load(Ordering::SeqCst)
    }

    /// Bytes that went this way since [`Proxy::flip`].
    pub fn passed(&self, towards: Towards) -> u64 {
        self.0.passed[towards as usize].load(Ordering::SeqCst)
    }

    /// The connections so far, in their order.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.0.seen).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

impl ProxyState {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stop.load(Ordering::SeqCst) {
            let timeout = Timespec { tv_sec: 0, tv_nsec: ROUND.subsec_nanos().into() };
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
            // A connection without a peer is closed.
            if let Ok((near, _)) = listener.accept() {
                let _ = self.connect(near);
            }
        }
    }

    fn connect(self: &Arc<Self>, near: TcpStream) -> Result<()> {
        let port = ip_original_dst(&near)?.port();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let far = TcpStream::connect(address)?;
        for socket in [&near, &far] {
            socket.set_nonblocking(false)?;
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(ROUND))?;
        }
        let number = {
            let mut seen = lock(&self.seen);
            seen.push(Seen { address, bytes: Vec::new() });
            seen.len() - 1
        };
        let directions = [(near.try_clone()?, far.try_clone()?, Towards::Acceptor), (far, near, Towards::Connector)];
        for (from, to, towards) in directions {
            let shared = Arc::clone(self);
            thread::Builder::new().name("lab-relay".into()).spawn(move || shared.relay(from, to, towards, number))?;
        }
        Ok(())
    }

    fn relay(&self, mut from: TcpStream, mut to: TcpStream, towards: Towards, connection: usize) {
        use std::io::{ErrorKind, Read, Write};
        let mut piece = vec![0; PIECE_BYTES];
        while !self.stop.load(Ordering::SeqCst) {
            let len = match from.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
                Err(_) => break,
            };
            if towards == Towards::Acceptor {
                let bytes = &mut lock(&self.seen)[connection].bytes;
                bytes.extend(piece[..len].iter().take(SEEN_MAX - bytes.len()));
            }
            self.tamper(&mut piece[..len], towards);
            if to.write_all(&piece[..len]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }

    fn tamper(&self, piece: &mut [u8], towards: Towards) {
        let begin = self.passed[towards as usize].fetch_add(piece.len() as u64, Ordering::SeqCst);
        lock(&self.plan).retain(|flip| {
            let offset = flip.byte.checked_sub(begin).and_then(|offset| usize::try_from(offset).ok());
            let byte = offset.and_then(|offset| piece.get_mut(offset)).filter(|_| flip.towards == towards);
            let Some(byte) = byte else { return true };
            *byte ^= 1 << flip.bit;
            self.flipped.fetch_add(1, Ordering::SeqCst);
            false
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn exactly_the_requested_bits_are_flipped() {
        if !Netns::available() {
            println!("SKIPPED: network namespaces need root");
            return;
        }
        let netns = Netns::create().expect("a namespace");
        let proxy = Proxy::start(&netns).expect("a proxy");
        proxy.flip([(3, Towards::Acceptor), (1, Towards::Connector)].map(|(byte, towards)| Flip {
            towards,
            byte,
            bit: 0,
        }));
        let (forth, back) = netns
            .enter(|| {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
                let port = listener.local_addr().expect("an address").port();
                let mut near = TcpStream::connect((Proxy::ADDRESS, port)).expect("the proxy");
                near.write_all(b"0000000").expect("sent");
                near.shutdown(Shutdown::Write).expect("ended");
                let (mut far, _) = listener.accept().expect("a connection");
                let (mut forth, mut back) = (String::new(), String::new());
                far.read_to_string(&mut forth).expect("text");
                far.write_all(b"000").expect("sent");
                drop(far);
                near.read_to_string(&mut back).expect("text");
                (forth, back)
            })
            .expect("entered");
        assert_eq!((forth.as_str(), back.as_str(), proxy.flipped()), ("0001000", "010", 2));
        assert_eq!(proxy.seen()[0].bytes, b"0000000");
    }
}
