//! `haul probe`: the probed copy, and the limits of its measurement.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::names_null;
use haul_control::operand::parse_operand;
use haul_control::probe::Probe;
use haul_proto::path::escape;
use haul_show::display::Display;

use super::{ResolvedSettings, settings};
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Default time of a part.
const TIME: Duration = Duration::from_secs(3);
/// Most bytes written by a part.
const SIZE: u64 = 4 << 30;
/// Numbers of streams to try besides haul's choice.
const STREAMS: [u16; 2] = [1, 4];

/// The probe of `operands`, its output, and `--timelimit`.
pub fn probe(
    own: &Values,
    copy: &Values,
    operands: &[OsString],
    stderr_is_terminal: bool,
) -> Result<(Probe, Display, Option<Duration>), UsageError> {
    let locations = operands.iter().map(|operand| parse_operand(operand)).collect::<Result<Vec<_>, _>>()?;
    let mut locations = locations.into_iter();
    let (source, target) = match (locations.next(), locations.next()) {
        (Some(source), Some(target)) => (Some(source), target),
        (Some(target), None) => (None, target),
        (None, _) => return Err(UsageError::new("no target given")),
    };
    source.iter().chain([&target]).try_for_each(require_place)?;
    let is_served = |place: &Location| matches!(place.host, Host::Served { .. });
    let network_only =
        own.is_set(&flags::probe::NETWORK) || is_served(&target) || source.as_ref().is_some_and(is_served);
    let ResolvedSettings { options, access, display, time_limit, .. } = settings(copy, stderr_is_terminal)?;
    let streams = match (own.get(&flags::probe::TRY_STREAMS)?, options.streams.count) {
        (Some(asked), _) => asked.into_iter().filter(|streams| *streams > 0).collect(),
        // A given number is the only one measured.
        (None, Some(_)) => Vec::new(),
        (None, None) => STREAMS.to_vec(),
    };
    let probe = Probe {
        source,
        target,
        options,
        access,
        time: own.get(&flags::probe::TIME)?.unwrap_or(TIME),
        bytes_max: own.get(&flags::probe::SIZE)?.unwrap_or(SIZE),
        streams,
        network_only,
    };
    if probe.network_only && probe.is_one_worker() {
        return Err(UsageError::new("--network: both ends are on this host, without a network")
            .remedy("haul probe --network host:"));
    }
    Ok((probe, display, time_limit))
}

/// Refuses null and pipes: a probe always measures memory to memory.
fn require_place(place: &Location) -> Result<(), UsageError> {
    match names_null(place.path.as_os_str()) {
        true => Err(UsageError::new(format!(
            "{}: haul probe needs an existing path",
            escape(place.path.as_os_str().as_bytes())
        ))
        .remedy("haul probe host:/path also measures memory to memory")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};

    fn planned(words: &str) -> Result<Probe, UsageError> {
        let words = std::iter::once("probe").chain(words.split_whitespace()).map(OsString::from).collect();
        match parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles)? {
            Command::Probe(own, copy, operands) => Ok(probe(&own, &copy, &operands, false)?.0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_operand_is_the_target_and_two_are_a_copy() {
        let one = planned("db1:/archive").unwrap();
        assert!(one.source.is_none() && one.target.path.to_str() == Some("/archive"));
        assert_eq!((one.time, one.streams, one.bytes_max), (TIME, vec![1, 4], SIZE));
        let two = planned("--time 2 --size 64m --try-streams 2,8 --cipher aes-128-gcm run7 db1:/archive").unwrap();
        assert_eq!(two.source.map(|source| source.host), Some(Host::Local));
        assert_eq!((two.time, two.streams, two.bytes_max), (Duration::from_secs(2), vec![2, 8], 64 << 20));
        assert_eq!(planned("-s 3 db1:").unwrap().streams, Vec::<u16>::new());
    }

    #[test]
    fn a_network_measurement_needs_another_host() {
        assert!(planned("--network db1:").unwrap().network_only);
        assert!(
            planned("haul://db1:2222/#0123456789abcdef0123456789abcdef").unwrap().network_only,
            "a server is measured from memory to memory"
        );
        assert!(!planned("db1:").unwrap().network_only);
        assert!(planned("--network here").unwrap_err().to_string().contains("both ends are on this host"));
    }

    #[test]
    fn an_impossible_place_is_refused() {
        for (words, says) in [
            ("null:1g db1:/a", "needs an existing path"),
            ("db1:null:", "needs an existing path"),
            ("--try-streams x db1:", "--try-streams x"),
            ("--time 0 db1:", "--time 0"),
            ("a b c", "haul probe"),
            ("", "haul probe"),
        ] {
            let error = planned(words).unwrap_err().to_string();
            assert!(error.contains(says), "{words}: {error}");
        }
    }
}
