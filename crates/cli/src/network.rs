//! Options of data connections.

use std::net::{IpAddr, Ipv6Addr};

use haul_base::copy::spec::{AddressFamily, CallbackAddress, NetworkOptions};
use haul_proto::path::escape;

use crate::args::flag::{Flag, Single};
use crate::args::values::Values;
use crate::args::{UsageError, contradiction, flags};

/// The settings by the options of a copy.
pub fn network(values: &Values) -> Result<NetworkOptions, UsageError> {
    let callback = callback(values)?;
    let ports = values.get(&flags::DATA_PORTS)?;
    if ports.is_some() && callback.as_ref().is_some_and(|callback| callback.port.is_some()) {
        return Err(
            UsageError::new("--callback with a port cannot be used with --port").remedy("omit one of the ports")
        );
    }
    Ok(NetworkOptions {
        callback,
        bind: bind(values)?,
        family: family(values, "st")?,
        reverse: values.is_set(&flags::REVERSE),
        ports,
        all_paths: values.get(&flags::PATHS)?.unwrap_or(false),
        transport: values.get(&flags::TRANSPORT)?.unwrap_or_default(),
        is_direct_unlikely: false,
    })
}

/// The address family required for one of these connections.
pub fn family(values: &Values, places: &str) -> Result<Option<AddressFamily>, UsageError> {
    let is_for = |flag: &Flag<Single<&'static str>>| -> Result<bool, UsageError> {
        Ok(values.get(flag)?.is_some_and(|word| word.contains(|place| places.contains(place))))
    };
    match (is_for(&flags::IPV4)?, is_for(&flags::IPV6)?) {
        (true, true) => Err(contradiction(&flags::IPV4, &flags::IPV6)),
        (true, false) => Ok(Some(AddressFamily::V4)),
        (false, true) => Ok(Some(AddressFamily::V6)),
        (false, false) => Ok(None),
    }
}

/// `HOST`, `HOST:PORT`, or an IPv6 address, in brackets if a port follows.
fn callback(values: &Values) -> Result<Option<CallbackAddress>, UsageError> {
    let Some(text) = values.get(&flags::CALLBACK)? else { return Ok(None) };
    let bad = || {
        UsageError::new(format!("--callback {}: not an address or a name", escape(text.as_bytes())))
            .remedy("for example --callback 10.10.1.155, 10.10.1.155:5031 or [fd00::1]:5031")
    };
    let whole = text.parse::<Ipv6Addr>().is_ok();
    let (host, port) = match text.rsplit_once(':').filter(|_| !whole && !text.ends_with(']')) {
        Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?)),
        None => (text.as_str(), None),
    };
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = inside.unwrap_or(host).to_owned();
    let is_address = host.parse::<IpAddr>().is_ok();
    let is_name =
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.' || b == b'_');
    if is_address || is_name && inside.is_none() { Ok(Some(CallbackAddress { host, port })) } else { Err(bad()) }
}

fn bind(values: &Values) -> Result<Option<String>, UsageError> {
    let bind = values.get(&flags::BIND)?;
    match &bind {
        Some(word) if word.is_empty() || word.contains(|c: char| c.is_control() || c.is_whitespace() || c == '/') => {
            Err(UsageError::new(format!("--bind {}: neither an address nor an interface", escape(word.as_bytes())))
                .remedy("for example --bind 10.10.1.155 or --bind eth1"))
        }
        _ => Ok(bind),
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::spec::{AddressFamily, CallbackAddress};

    use crate::resolve::tests::{good, plan_of};

    #[test]
    fn an_address_to_call_back_may_have_a_port() {
        let callback = |line: &str| good(&format!("{line} a h:b")).copy.options.streams.network.callback;
        let at = |host: &str, port| Some(CallbackAddress { host: host.into(), port });
        assert_eq!(callback("--callback 10.10.1.155"), at("10.10.1.155", None));
        assert_eq!(callback("--callback 10.10.1.155:5031"), at("10.10.1.155", Some(5031)));
        assert_eq!(callback("--callback db1.lan:9"), at("db1.lan", Some(9)));
        assert_eq!(callback("--callback fd00::1"), at("fd00::1", None));
        assert_eq!(callback("--callback [fd00::1]:9"), at("fd00::1", Some(9)));
        assert_eq!(callback("--callback [fd00::1]"), at("fd00::1", None));
        assert_eq!(callback("-r"), None);
    }

    #[test]
    fn one_kind_of_addresses_may_be_for_ssh_the_data_or_both() {
        let families = |line: &str| {
            let copy = good(&format!("{line} a h:b")).copy;
            (copy.access.family, copy.options.streams.network.family)
        };
        let (v4, v6) = (Some(AddressFamily::V4), Some(AddressFamily::V6));
        assert_eq!(families("-4"), (v4, v4));
        assert_eq!(families("-6 -r"), (v6, v6));
        assert_eq!(families("--ipv4 c"), (v4, None));
        assert_eq!(families("--ipv4 s,t"), (None, v4));
        assert_eq!(families("--ipv4 c --ipv6 t"), (v4, v6));
        assert_eq!(families("-r"), (None, None));
    }

    #[test]
    fn ports_and_paths() {
        let network = |line: &str| good(&format!("{line} a h:b")).copy.options.streams.network;
        assert_eq!(network("--data-ports 5031:5039").ports, Some((5031, 5039)));
        assert_eq!((network("--data-ports 7").ports, network("-r").ports), (Some((7, 7)), None));
        assert!(network("--reverse").reverse && network("--paths all").all_paths && !network("--paths best").all_paths);
        assert_eq!(network("--bind eth1").bind.as_deref(), Some("eth1"));
    }

    #[test]
    fn impossible_addresses_are_named_with_an_example() {
        let lines = [
            "--callback x:y a b",
            "--callback [x] a b",
            "--callback a/b a b",
            "--data-ports 0 a b",
            "--data-ports 9:8 a b",
            "--data-ports 5031:x a b",
            "--bind= a b",
            "--callback 10.0.0.1:9 --data-ports 9 a b",
            "-4 -6 a b",
            "--paths most a b",
        ];
        let errors = lines.map(|line| format!("$ haul {line}\n{}", plan_of(line, false).unwrap_err()));
        insta::assert_snapshot!(errors.join("\n\n"), @"
        $ haul --callback x:y a b
        --callback x:y: not an address or a name
        hint: for example --callback 10.10.1.155, 10.10.1.155:5031 or [fd00::1]:5031

        $ haul --callback [x] a b
        --callback [x]: not an address or a name
        hint: for example --callback 10.10.1.155, 10.10.1.155:5031 or [fd00::1]:5031

        $ haul --callback a/b a b
        --callback a/b: not an address or a name
        hint: for example --callback 10.10.1.155, 10.10.1.155:5031 or [fd00::1]:5031

        $ haul --data-ports 0 a b
        --data-ports 0: must be a port from 1 to 65535, or a range
        hint: for example 5031 or 5031:5039

        $ haul --data-ports 9:8 a b
        --data-ports 9:8: must be a port from 1 to 65535, or a range
        hint: for example 5031 or 5031:5039

        $ haul --data-ports 5031:x a b
        --data-ports 5031:x: must be a port from 1 to 65535, or a range
        hint: for example 5031 or 5031:5039

        $ haul --bind= a b
        --bind : neither an address nor an interface
        hint: for example --bind 10.10.1.155 or --bind eth1

        $ haul --callback 10.0.0.1:9 --data-ports 9 a b
        --callback with a port cannot be used with --port
        hint: omit one of the ports

        $ haul -4 -6 a b
        --ipv4 cannot be used with --ipv6

        $ haul --paths most a b
        --paths most: must be best or all
        ");
    }
}
