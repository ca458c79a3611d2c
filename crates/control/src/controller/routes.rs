//! Direction and paths of data connections, from the reported addresses of both ends and the user's options.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use haul_base::copy::error::Error;
use haul_base::copy::event::NetworkPath;
use haul_base::copy::location::Host;
use haul_base::copy::spec::{AddressFamily, CallbackAddress, CopySpec};
use haul_proto::limits::ROUTES_MAX;
use haul_proto::path_candidates::{EndAddresses, candidates, slower};
use haul_proto::wire::address::LocalAddress;
use haul_proto::wire::route::Route;

use super::worker_role::WorkerRole;
use super::workers::Workers;
use crate::controller::reached_host::ReachedHost;

/// A direction for data connections.
#[derive(Debug, Clone)]
pub struct ConnectDirection {
    /// The end that connects.
    pub connector: WorkerRole,
    /// The end that accepts.
    pub acceptor: WorkerRole,
    /// Address to accept at; `None` for any of its addresses.
    pub at: Option<IpAddr>,
    /// Candidate paths, the best first, without a port: the port is known once the end listens.
    routes: Vec<Route>,
}

impl ConnectDirection {
    /// Returns the paths to this port.
    pub fn routes(&self, port: u16) -> Vec<Route> {
        let with_port = |route: &Route| Route { to: format!("{}:{port}", route.to), ..route.clone() };
        self.routes.iter().map(with_port).collect()
    }

    /// Whether there is no path to try.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

/// Address or interface named by `--bind`.
struct BindAddress {
    role: WorkerRole,
    addresses: Vec<IpAddr>,
    interface: String,
}

/// Returns the directions for data connections, in the order of attempts.
pub fn directions(copy: &CopySpec, workers: &Workers) -> Result<Vec<ConnectDirection>, Error> {
    let network = &copy.options.streams.network;
    let bound = network.bind.as_deref().map(|word| bound(word, near(copy), workers)).transpose()?;
    if let Some(callback) = &network.callback {
        return callback_direction(callback, copy, workers, bound.as_ref()).map(|direction| vec![direction]);
    }
    let first = if network.reverse { WorkerRole::Target } else { near(copy) };
    Ok([first, first.other()].map(|connector| direction(connector, copy, workers, bound.as_ref())).into())
}

/// Returns the end that connects by default: the local one, or the source.
fn near(copy: &CopySpec) -> WorkerRole {
    match &copy.target.host {
        Host::Remote { .. } | Host::Served { .. } => WorkerRole::Source,
        Host::Local => WorkerRole::Target,
    }
}

fn direction(
    connector: WorkerRole,
    copy: &CopySpec,
    workers: &Workers,
    bound: Option<&BindAddress>,
) -> ConnectDirection {
    let acceptor = connector.other();
    let family = copy.options.streams.network.family;
    let at = bound.filter(|bound| bound.role == acceptor).map(|bound| &bound.addresses);
    let of = |role: WorkerRole| addresses(role, workers, bound);
    let reached = reached(copy, workers, connector);
    let known = reached.iter().find(|known| at.is_none_or(|at| at.contains(known))).copied();
    let found = candidates(EndAddresses { connector: &of(connector), acceptor: &of(acceptor), known });
    let others = reached.into_iter().filter(|other| at.is_none_or(|at| at.contains(other)));
    let others: Vec<_> = others.filter(|other| found.iter().all(|candidate| candidate.to != *other)).collect();
    let found = found.into_iter().map(|candidate| (candidate.to, candidate.link));
    let scoped = scoped_route(copy, connector).filter(|_| at.is_none() && family != Some(AddressFamily::V4));
    let routes = found
        .chain(others.into_iter().map(|other| (other, 0)))
        .take(ROUTES_MAX - usize::from(scoped.is_some()))
        .filter(|(to, _)| family.is_none_or(|family| family.has(to)))
        .filter_map(|(to, link)| route(to, link, connector, bound))
        .chain(scoped)
        .collect();
    let at = at.and_then(|at| at.iter().find(|address| family.is_none_or(|family| family.has(address))).copied());
    ConnectDirection { connector, acceptor, at, routes }
}

/// Returns the route to a link-local address that the user typed with its scope, as `fe80::1%eth0`. It has a meaning on
/// this machine alone.
fn scoped_route(copy: &CopySpec, connector: WorkerRole) -> Option<Route> {
    let (Host::Local, Host::Remote { name, .. }) = (host(copy, connector), host(copy, connector.other())) else {
        return None;
    };
    scoped_address(name).map(Route::to)
}

/// Returns a link-local address with its scope as a number, in brackets.
fn scoped_address(name: &str) -> Option<String> {
    let (address, scope) = name.split_once('%')?;
    let address = address.parse::<Ipv6Addr>().ok().filter(Ipv6Addr::is_unicast_link_local)?;
    let of_interface = || std::fs::read_to_string(Path::new("/sys/class/net").join(scope).join("ifindex")).ok();
    let index = scope.parse().ok().or_else(|| of_interface()?.trim().parse::<u32>().ok())?;
    Some(format!("[{address}%{index}]"))
}

/// Returns the route to an address from the user's bind address; `None` if there is none.
fn route(to: IpAddr, link: u16, connector: WorkerRole, bound: Option<&BindAddress>) -> Option<Route> {
    let to_text = if to.is_ipv6() { format!("[{to}]") } else { to.to_string() };
    let route = Route { link, ..Route::to(to_text) };
    let Some(bound) = bound.filter(|bound| bound.role == connector) else { return Some(route) };
    let from = bound.addresses.iter().find(|from| from.is_ipv4() == to.is_ipv4())?;
    Some(Route { from: Some(*from), interface: bound.interface.clone(), ..route })
}

/// Returns the direction for `--callback`. The end with the address accepts there; if neither reports it, the target
/// does, or the source with `--reverse`.
fn callback_direction(
    callback: &CallbackAddress,
    copy: &CopySpec,
    workers: &Workers,
    bound: Option<&BindAddress>,
) -> Result<ConnectDirection, Error> {
    let network = &copy.options.streams.network;
    let addresses = looked_up(&callback.host, network.family)?;
    let wanted = if network.reverse { WorkerRole::Source } else { WorkerRole::Target };
    let has = |role: &WorkerRole| addresses.iter().any(|address| local(workers, *role, address).is_some());
    let acceptor = [wanted, wanted.other()].into_iter().find(has).unwrap_or(wanted);
    if network.reverse && acceptor != WorkerRole::Source {
        let text = format!(
            "with --reverse the target connects to the source, but --callback {} is the target's own address",
            callback.host
        );
        return Err(Error::Usage(format!("{text}\nomit one of them")));
    }
    let connector = acceptor.other();
    let routes = addresses.iter().filter_map(|to| route(*to, 1, connector, bound)).collect();
    let at = bound.filter(|bound| bound.role == acceptor).and_then(|bound| bound.addresses.first().copied());
    Ok(ConnectDirection { connector, acceptor, at, routes })
}

fn looked_up(host: &str, family: Option<AddressFamily>) -> Result<Vec<IpAddr>, Error> {
    let found = (host, 0).to_socket_addrs().map_err(|error| {
        Error::Usage(format!("--callback {host}: cannot resolve the name: {error}\nuse an address"))
    })?;
    let of_family = |address: &IpAddr| family.is_none_or(|family| family.has(address));
    let found: Vec<_> = found.map(|address| address.ip()).filter(of_family).collect();
    match (found.is_empty(), family) {
        (true, Some(family)) => Err(Error::Usage(format!(
            "--callback {host}: no address that {} permits\nomit one of them",
            family.option()
        ))),
        _ => Ok(found),
    }
}

/// Resolves `word` at this end to one of its addresses or an interface.
fn bound(word: &str, role: WorkerRole, workers: &Workers) -> Result<BindAddress, Error> {
    let all = &workers.hello(role).addresses;
    let of_interface: Vec<_> = all.iter().filter(|local| local.interface == word).map(|local| local.address).collect();
    if !of_interface.is_empty() {
        return Ok(BindAddress { role, addresses: of_interface, interface: word.to_owned() });
    }
    let address = word
        .parse::<IpAddr>()
        .ok()
        .filter(|address| address.is_loopback() || all.iter().any(|local| local.address == *address));
    match address {
        Some(address) => Ok(BindAddress { role, addresses: vec![address], interface: String::new() }),
        None => {
            let there: Vec<_> = all.iter().map(|local| format!("{} ({})", local.address, local.interface)).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            let text = format!("--bind {word}: no such address or interface on {}", workers.label(role));
            Err(Error::Usage(format!("{text}\navailable: {there}")))
        }
    }
}

/// Returns the addresses of an end that the user's options allow.
fn addresses(role: WorkerRole, workers: &Workers, bound: Option<&BindAddress>) -> Vec<LocalAddress> {
    let all = workers.hello(role).addresses.iter();
    let bound = bound.filter(|bound| bound.role == role);
    all.filter(|local| bound.is_none_or(|bound| bound.addresses.contains(&local.address))).cloned().collect()
}

fn local<'a>(workers: &'a Workers, role: WorkerRole, address: &IpAddr) -> Option<&'a LocalAddress> {
    workers.hello(role).addresses.iter().find(|local| local.address == *address)
}

/// Returns the host of an end.
pub fn host(copy: &CopySpec, role: WorkerRole) -> &Host {
    match role {
        WorkerRole::Source => copy.source_host(),
        WorkerRole::Target => &copy.target.host,
    }
}

/// Returns the known addresses of the host of an end.
fn contact<'a>(copy: &'a CopySpec, workers: &'a Workers, role: WorkerRole) -> ReachedHost<'a> {
    // `client address, client port, server address, server port`.
    let connection = workers.hello(role).ssh_connection.as_deref();
    let reported = connection.map(|connection| connection.split_ascii_whitespace().nth(2).unwrap_or_default());
    ReachedHost { host: host(copy, role), peer: workers.peer(role), reported }
}

/// Returns the addresses at which the accepting end was reached, the likeliest first.
fn reached(copy: &CopySpec, workers: &Workers, connector: WorkerRole) -> Vec<IpAddr> {
    let (from, to) = (contact(copy, workers, connector), contact(copy, workers, connector.other()));
    match (to.host, from.host) {
        (Host::Local, Host::Local) => vec![Ipv4Addr::LOCALHOST.into()],
        (Host::Local, Host::Remote { .. } | Host::Served { .. }) => {
            // The ssh client's address as the connecting host reports it: only that host connects to it.
            let hello = workers.hello(connector);
            let own = hello.addresses.iter().map(|local| local.address).collect::<Vec<_>>();
            from.client(hello.ssh_connection.as_deref().unwrap_or_default(), &own).into_iter().collect()
        }
        (Host::Remote { .. } | Host::Served { .. }, _) => {
            let look_up = |name: &str| match (name, 0).to_socket_addrs() {
                Ok(found) => found.map(|address| address.ip()).collect(),
                // ssh alone may know the name.
                Err(_) => Vec::new(),
            };
            let own: Vec<_> = workers.hello(connector).addresses.iter().map(|local| local.address).collect();
            let is_own = |address: &IpAddr| own.contains(address) && !to.is_seen(address);
            let mut reached = to.addresses(from.is_here(), look_up);
            reached.retain(|address| !is_own(address));
            reached
        }
    }
}

/// Returns a path for display: its interface, and that interface's reported speed.
pub fn shown(workers: &Workers, connector: WorkerRole, from: String, to: String) -> NetworkPath {
    let of = |role: WorkerRole, text: &str| {
        let address = text.parse::<SocketAddr>().ok()?.ip().to_canonical();
        local(workers, role, &address)
    };
    let (own, other) = (of(connector, &from), of(connector.other(), &to));
    let speed = |local: Option<&LocalAddress>| local.map_or(0, |local| local.mbit_per_s);
    let mbit_per_s = Some(slower(speed(own), speed(other))).filter(|speed| *speed > 0);
    NetworkPath { interface: own.map(|own| own.interface.clone()), mbit_per_s, from, to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_keeps_its_scope() {
        for (name, address) in [
            ("fe80::1%3", Some("[fe80::1%3]")),
            ("fe80::1%lo", Some("[fe80::1%1]")),
            ("fe80::1%no-such-interface", None),
            ("fe80::1", None),
            ("2001:db8::1%3", None),
            ("db1", None),
        ] {
            assert_eq!(scoped_address(name).as_deref(), address, "{name}");
        }
        let scoped: SocketAddr = "[fe80::1%3]:22".parse().unwrap();
        assert!(scoped.is_ipv6(), "the connecting worker parses it");
    }
}
