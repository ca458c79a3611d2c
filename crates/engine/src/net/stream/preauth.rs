//! Connections before authentication: their number, their addresses, and which is closed first.
//!
//! Any host that reaches a port can fill it. So a network (one IPv4 address, or a /64 of IPv6) has a share of the
//! places. If its share or the whole is full, the oldest connection is closed: a client needs its place only for a few
//! round trips. Under pressure, the deadline is short.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haul_base::sys::sync::lock;
use haul_proto::limits::{PENDING_CONNECTIONS_MAX, PRESSED_DEADLINE_MS};
use rustix::net::{Shutdown, shutdown};

/// Number of pending connections from which the deadline is [`PRESSED_DEADLINE_MS`].
const PRESSURE: usize = PENDING_CONNECTIONS_MAX / 2;
/// Most threads of connections, each of which ends as soon as its connection is closed.
const THREADS_MAX: usize = 2 * PENDING_CONNECTIONS_MAX;

/// A listener's unauthenticated connections.
pub struct PendingConnections {
    from_network_max: usize,
    state: Mutex<PreauthState>,
}

#[derive(Default)]
struct PreauthState {
    next: u64,
    /// The connections, oldest first.
    pending: Vec<PendingConnection>,
    threads: usize,
}

struct PendingConnection {
    number: u64,
    from: AddressPrefix,
    since: Instant,
    socket: OwnedFd,
}

/// A network whose addresses count as one: a host or a site has many IPv6 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressPrefix {
    /// An address.
    V4([u8; 4]),
    /// A /64.
    V6([u8; 8]),
}

impl AddressPrefix {
    /// Returns the network of an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// The place of an unauthenticated connection; returned on drop.
pub struct PendingPlace {
    number: u64,
    is_proven: Cell<bool>,
    all: Arc<PendingConnections>,
}

impl PendingConnections {
    /// The state of a listener, with a limit per network.
    pub fn new(from_network_max: usize) -> Arc<Self> {
        Arc::new(Self { from_network_max, state: Mutex::default() })
    }

    /// Admits a connection, and closes others for it if necessary. `None` if it is refused.
    pub fn admit(self: &Arc<Self>, socket: impl AsFd, address: IpAddr) -> Option<PendingPlace> {
        self.admit_at(socket, address, Instant::now())
    }

    fn admit_at(self: &Arc<Self>, socket: impl AsFd, address: IpAddr, now: Instant) -> Option<PendingPlace> {
        let socket = rustix::io::fcntl_dupfd_cloexec(socket, 0).ok()?;
        let from = AddressPrefix::of(address);
        let mut state = lock(&self.state);
        if state.threads >= THREADS_MAX {
            return None;
        }
        if state.pending.len() >= PRESSURE {
            state.close_older_than(Duration::from_millis(PRESSED_DEADLINE_MS), now);
        }
        if state.pending.iter().filter(|pending| pending.from == from).count() >= self.from_network_max {
            state.close_oldest_of(from);
        }
        if state.pending.len() >= PENDING_CONNECTIONS_MAX
            && let Some(largest) = state.largest_network()
        {
            state.close_oldest_of(largest);
        }
        let number = state.next;
        state.next += 1;
        state.threads += 1;
        state.pending.push(PendingConnection { number, from, since: now, socket });
        drop(state);
        Some(PendingPlace { number, is_proven: Cell::new(false), all: Arc::clone(self) })
    }
}

impl PreauthState {
    fn close_older_than(&mut self, limit: Duration, now: Instant) {
        self.pending.retain(|pending| {
            let stays = now.saturating_duration_since(pending.since) < limit;
            if !stays {
                pending.close();
            }
            stays
        });
    }

    fn close_oldest_of(&mut self, network: AddressPrefix) {
        if let Some(at) = self.pending.iter().position(|pending| pending.from == network) {
            self.pending.remove(at).close();
        }
    }

    /// The network with the most connections; among several, the one with the oldest.
    fn largest_network(&self) -> Option<AddressPrefix> {
        let mut counts: HashMap<AddressPrefix, usize> = HashMap::new();
        self.pending.iter().for_each(|pending| *counts.entry(pending.from).or_default() += 1);
        let most = counts.values().max().copied()?;
        self.pending.iter().map(|pending| pending.from).find(|from| counts.get(from) == Some(&most))
    }
}

impl PendingConnection {
    /// Shuts it down, which wakes its thread.
    fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl PendingPlace {
    /// Returns the place of an authenticated connection. Fails if it was closed before.
    pub fn prove(&self) -> io::Result<()> {
        let mut state = lock(&self.all.state);
        match state.pending.iter().position(|pending| pending.number == self.number) {
            Some(at) => {
                state.pending.remove(at);
                state.threads -= 1;
                self.is_proven.set(true);
                Ok(())
            }
            None => Err(io::Error::other(CROWDED_OUT)),
        }
    }

    /// Whether the connection has lost its place to a newer one.
    pub fn is_lost(&self) -> bool {
        !self.is_proven.get() && !lock(&self.all.state).pending.iter().any(|pending| pending.number == self.number)
    }
}

/// Why a connection was closed for others.
pub const CROWDED_OUT: &str = "too many unauthenticated connections: closed for newer ones";

impl Drop for PendingPlace {
    fn drop(&mut self) {
        if self.is_proven.get() {
            return;
        }
        let mut state = lock(&self.all.state);
        state.pending.retain(|pending| pending.number != self.number);
        state.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A connection from there, and its other end.
    fn connect(all: &Arc<PendingConnections>, from: &str, now: Instant) -> (Option<PendingPlace>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let place = all.admit_at(&near, from.parse().unwrap(), now);
        // The thread of a connection keeps its socket; here, the place's copy does.
        (place, far)
    }

    fn is_closed(far: &mut UnixStream) -> bool {
        matches!(far.read(&mut [0]), Ok(0))
    }

    #[test]
    fn a_networks_oldest_connection_is_dropped_and_other_networks_keep_theirs() {
        let (all, now) = (PendingConnections::new(4), Instant::now());
        let (other, mut other_far) = connect(&all, "10.0.0.1", now);
        // A /64 counts as one, and an IPv4 address in IPv6's form is that of IPv4.
        let mut many: Vec<_> = (0..6).map(|host| connect(&all, &format!("fd00::{host}"), now)).collect();
        let closed: Vec<_> = many.iter_mut().map(|(_, far)| is_closed(far)).collect();
        assert_eq!(closed, [true, true, false, false, false, false]);
        assert!(many[0].0.as_ref().unwrap().is_lost() && many[0].0.as_ref().unwrap().prove().is_err());
        assert!(many[5].0.as_ref().unwrap().prove().is_ok());
        assert!(!is_closed(&mut other_far) && other.unwrap().prove().is_ok());
        assert_eq!(
            AddressPrefix::of("::ffff:10.0.0.1".parse().unwrap()),
            AddressPrefix::of("10.0.0.1".parse().unwrap())
        );
        assert_ne!(AddressPrefix::of("fd00:0:0:1::1".parse().unwrap()), AddressPrefix::of("fd00::1".parse().unwrap()));
    }

    #[test]
    fn with_all_places_full_the_largest_network_loses_one() {
        let (all, now) = (PendingConnections::new(40), Instant::now());
        let (client, mut client_far) = connect(&all, "10.0.0.1", now);
        let mut crowd: Vec<_> = (0..40).map(|_| connect(&all, "10.0.0.2", now)).collect();
        let rest: Vec<_> = (0..30).map(|host| connect(&all, &format!("10.0.1.{host}"), now)).collect();
        assert_eq!(lock(&all.state).pending.len(), PENDING_CONNECTIONS_MAX);
        assert!(!is_closed(&mut client_far) && client.unwrap().prove().is_ok());
        assert_eq!(crowd.iter_mut().filter_map(|(_, far)| is_closed(far).then_some(())).count(), 7);
        assert!(rest.iter().all(|(place, _)| !place.as_ref().unwrap().is_lost()));
    }

    #[test]
    fn under_pressure_the_deadline_is_short() {
        let (all, began) = (PendingConnections::new(PENDING_CONNECTIONS_MAX), Instant::now());
        let idle: Vec<_> = (0..PRESSURE - 1).map(|_| connect(&all, "10.0.0.1", began)).collect();
        let later = began + Duration::from_millis(PRESSED_DEADLINE_MS);
        let _unpressed = connect(&all, "10.0.0.2", later);
        assert!(idle.iter().all(|(place, _)| !place.as_ref().unwrap().is_lost()));
        let _pressed = connect(&all, "10.0.0.3", later);
        assert!(idle.iter().all(|(place, _)| place.as_ref().unwrap().is_lost()));
        assert_eq!(lock(&all.state).pending.len(), 2);
    }

    #[test]
    fn the_number_of_threads_is_bounded_even_if_they_do_not_end() {
        let (all, now) = (PendingConnections::new(1), Instant::now());
        let held: Vec<_> = (0..THREADS_MAX).map(|_| connect(&all, "10.0.0.1", now)).collect();
        assert!(connect(&all, "10.0.0.2", now).0.is_none());
        // An authenticated connection no longer counts.
        let (last, _) = held.last().unwrap();
        last.as_ref().unwrap().prove().unwrap();
        assert!(connect(&all, "10.0.0.2", now).0.is_some());
        drop(held);
        assert!(connect(&all, "10.0.0.2", now).0.is_some());
    }
}
