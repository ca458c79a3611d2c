//! Addresses for connections to an end: those at which this machine reached it, and those of its reported interfaces.
//! Addresses of this machine and reported names are never used.

use std::net::IpAddr;

use haul_base::copy::location::Host;
use haul_proto::path_candidates::may_lead_elsewhere;

/// Known addresses of a reached host.
#[derive(Debug, Clone, Copy)]
pub struct ReachedHost<'a> {
    /// The host as the user typed it.
    pub host: &'a Host,
    /// Remote address of this machine's connection, if known: ssh may use a jump host, or share a connection.
    pub peer: Option<IpAddr>,
    /// Address of its end of the connection, by its own report.
    pub reported: Option<&'a str>,
}

impl ReachedHost<'_> {
    /// Whether the host was reached over loopback, or requested by a loopback address or name.
    pub fn is_here(&self) -> bool {
        let is_typed = |name: &str| {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost"
                || name.ends_with(".localhost")
                || literal(&name).is_some_and(|typed| typed.is_loopback())
        };
        match self.host {
            Host::Local => true,
            Host::Remote { name, .. } | Host::Served { name, .. } => {
                is_typed(name) || self.peer.is_some_and(|peer| peer.to_canonical().is_loopback())
            }
        }
    }

    /// Returns the addresses at which a remote host was reached, the likeliest first. `resolve` looks up the typed
    /// name, only if no address is known. `connector_is_here` is false if the connecting end is on another machine,
    /// where loopback would mean that machine.
    pub fn addresses(&self, connector_is_here: bool, resolve: impl FnOnce(&str) -> Vec<IpAddr>) -> Vec<IpAddr> {
        let (Host::Remote { name, .. } | Host::Served { name, .. }) = self.host else { return Vec::new() };
        let loopback = self.is_here() && connector_is_here;
        let may_be_used = |address: &IpAddr| may_lead_elsewhere(address) || loopback && address.is_loopback();
        if let Some(own) = self.peer.map(|peer| peer.to_canonical()).or_else(|| literal(name)) {
            // A scope belongs to the connection and is lost here; a path without it would not work.
            return [own].into_iter().filter(may_be_used).collect();
        }
        match self.reported {
            Some(reported) => literal(reported).into_iter().filter(may_be_used).collect(),
            None => resolve(name).into_iter().map(|found| found.to_canonical()).filter(may_be_used).collect(),
        }
    }

    /// Returns the address of this machine that the host reports (the client's of its SSH_CONNECTION), for its
    /// connections to here. None of the host's `own` addresses, and no loopback, unless it was reached at that.
    pub fn client(&self, ssh_connection: &str, own: &[IpAddr]) -> Option<IpAddr> {
        let client = literal(ssh_connection.split_ascii_whitespace().next()?)?;
        let is_here = client.is_loopback() && self.is_here();
        let is_other = may_lead_elsewhere(&client) && (!own.contains(&client) || self.is_seen(&client));
        (is_here || is_other).then_some(client)
    }

    /// Whether this machine itself knows that address of the host.
    pub fn is_seen(&self, address: &IpAddr) -> bool {
        let typed = match self.host {
            Host::Remote { name, .. } | Host::Served { name, .. } => literal(name),
            Host::Local => None,
        };
        [self.peer.map(|peer| peer.to_canonical()), typed].into_iter().flatten().any(|own| own == *address)
    }
}

fn literal(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(name: &str, peer: Option<&str>, reported: Option<&str>, here: bool, found: &[&str]) -> Vec<String> {
        let host = Host::Remote { user: None, name: name.into() };
        let contact = ReachedHost { host: &host, peer: peer.map(|peer| peer.parse().unwrap()), reported };
        let resolve = |_: &str| found.iter().map(|text| text.parse().unwrap()).collect();
        contact.addresses(here, resolve).iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn this_machines_view_takes_precedence_over_the_hosts_claim() {
        assert_eq!(addresses("far", Some("192.0.2.7"), Some("198.51.100.1"), true, &[]), ["192.0.2.7"]);
        assert_eq!(addresses("192.0.2.7", None, Some("198.51.100.1"), true, &[]), ["192.0.2.7"]);
        assert_eq!(addresses("far", Some("::ffff:192.0.2.7"), None, true, &[]), ["192.0.2.7"]);
        assert_eq!(addresses("far", None, Some("198.51.100.1"), true, &["192.0.2.7"]), ["198.51.100.1"]);
        assert_eq!(addresses("far", None, None, true, &["192.0.2.7", "2001:db8::7"]), ["192.0.2.7", "2001:db8::7"]);
    }

    #[test]
    fn a_host_never_claims_an_address_of_this_machine() {
        let client = |name: &str, peer: Option<&str>, connection: &str| {
            let host = Host::Remote { user: None, name: name.into() };
            let reached = ReachedHost { host: &host, peer: peer.map(|peer| peer.parse().unwrap()), reported: None };
            reached.client(connection, &["192.0.2.7".parse().unwrap()]).map(|found| found.to_string())
        };
        let long = "9".repeat(100_000);
        for connection in [
            "",
            " ",
            "\n",
            "no address",
            "127.0.0.1 1 192.0.2.7 22",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "fe80::1",
            "fe80::1%eth0",
            "169.254.1.1",
            "192.0.2.7 1 192.0.2.7 22",
            "::ffff:192.0.2.7",
            "192.0.2.1:22",
            "evil.example",
            &long,
        ] {
            assert_eq!(client("far", Some("192.0.2.8"), connection), None, "{connection}");
        }
        let here = "198.51.100.1 40000 192.0.2.7 22";
        assert_eq!(client("far", None, here).as_deref(), Some("198.51.100.1"));
        assert_eq!(client("far", None, "::ffff:198.51.100.1").as_deref(), Some("198.51.100.1"));
        assert_eq!(client("localhost", None, "::1 1 ::1 22").as_deref(), Some("::1"));
        assert_eq!(client("far", Some("127.0.0.1"), "127.0.0.1 1 127.0.0.1 22").as_deref(), Some("127.0.0.1"));
        assert_eq!(client("far", Some("192.0.2.7"), "192.0.2.7").as_deref(), Some("192.0.2.7"), "it is this machine");
    }

    #[test]
    fn loopback_means_this_machine_only_on_request() {
        let none = Vec::<String>::new();
        for reported in
            ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "localhost", "evil.example", ""]
        {
            assert_eq!(addresses("far", None, Some(reported), true, &[]), none, "{reported}");
        }
        assert_eq!(addresses("far", None, None, true, &["127.0.0.1", "::1"]), none, "a name that leads here");
        assert_eq!(addresses("far", Some("127.0.0.1"), Some("198.51.100.1"), true, &[]), ["127.0.0.1"], "as ssh does");
        for typed in ["localhost", "LOCALHOST.", "box.localhost"] {
            assert_eq!(addresses(typed, None, Some("127.0.0.1"), true, &[]), ["127.0.0.1"], "{typed}");
            assert_eq!(addresses(typed, None, None, true, &["::1"]), ["::1"], "{typed}");
        }
        for typed in ["127.0.0.1", "::1", "127.3.2.1"] {
            assert_eq!(addresses(typed, None, Some("198.51.100.1"), true, &[]), [typed]);
            assert_eq!(addresses(typed, None, None, false, &[]), none, "to another machine that is another one");
        }
    }
}
