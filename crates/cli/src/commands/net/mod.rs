//! `haul net HOST`: measures the network between this host and another host or a server.

mod figures;
pub mod json;
mod meter;
mod shown;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use haul_base::copy::error::Error;
use haul_base::copy::event::TransportPath;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::sys::cancel::Cancel;
use haul_control::controller;
use haul_show::exit::Exit;
use haul_show::{self as show, terminal};

use self::meter::NetMeter;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::commands::own_program::own_program;
use crate::resolve::{ENDLESS_ZEROS, plan};
use crate::signals::Watch;

const DURATION: Duration = Duration::from_secs(10);
/// Interval of the target's reports.
const REPORT_EVERY: Duration = Duration::from_millis(100);
const NULL: &[u8] = b"null:";

/// The source and the target of the measurement.
pub fn operands(host: &OsStr, is_reverse: bool) -> [OsString; 2] {
    let host = host.as_bytes();
    let host = host.strip_suffix(NULL).unwrap_or(host);
    let host = host.strip_suffix(b":").unwrap_or(host);
    let there = |path: &[u8]| OsString::from_vec([host, before_path(host), path].concat());
    match is_reverse {
        true => [there(ENDLESS_ZEROS.as_bytes()), OsStr::from_bytes(NULL).to_owned()],
        false => [ENDLESS_ZEROS.into(), there(NULL)],
    }
}

/// The separator of host and path: a slash after a server's address without a secret.
fn before_path(host: &[u8]) -> &'static [u8] {
    let Some(server) = host.strip_prefix(b"haul://").filter(|server| !server.contains(&b'#')) else { return b":" };
    match server.iter().position(|&byte| byte == b'/') {
        None => b"//",
        Some(_) => b"/",
    }
}

/// Measures between `operands`, one of which is this host.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let mut plan = plan(values, operands, terminal::stderr_is_terminal())?;
    plan.copy.options.stop.after.get_or_insert(DURATION);
    let every = Duration::from_secs(values.get(&flags::net::PROGRESS)?.unwrap_or(1).into());
    plan.copy.options.reports.progress_every = REPORT_EVERY.min(every);
    let cancel = Cancel::new();
    let steering = RuntimeControl::new();
    let watch = Watch::start(cancel.clone(), steering.rate().clone(), None)?;
    let mut meter = NetMeter::new(show::stderr(), plan.display.mode, every);
    let outcome = watch.during(|| controller::run(plan.copy, own_program(), &cancel, &steering, &mut meter));
    match outcome {
        Ok(summary) if matches!(summary.connection.transport, TransportPath::None | TransportPath::Local { .. }) => {
            Err(UsageError::new("haul net: both ends are on this host, without a network")
                .remedy("haul net HOST, where HOST is another host or the address that haul serve printed")
                .into())
        }
        Ok(summary) => {
            let exit = Exit::of(&Ok(summary.clone()));
            meter.finish(&summary, exit.number());
            Ok(exit)
        }
        Err(error) => {
            let error = if cancel.is_cancelled() { Error::Interrupted } else { error };
            let text = error.to_string();
            let exit = Exit::of(&Err(error));
            if let Some(summary) = meter.stopped.take() {
                meter.finish(&summary, exit.number());
            }
            show::stderr().error(&text);
            Ok(exit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_becomes_a_source_or_a_target() {
        let there = |host: &str, is_reverse: bool| {
            let [source, target] = operands(OsStr::new(host), is_reverse);
            (if is_reverse { source } else { target }).into_string().unwrap()
        };
        for (host, target) in [
            ("db1", "db1:null:"),
            ("anna@db1:", "anna@db1:null:"),
            ("db1:null:", "db1:null:"),
            ("[::1]", "[::1]:null:"),
            ("haul://db1:5/#00", "haul://db1:5/#00:null:"),
            ("haul://db1:5", "haul://db1:5//null:"),
            ("haul://db1:5/", "haul://db1:5//null:"),
            ("haul://db1/dir", "haul://db1/dir/null:"),
        ] {
            assert_eq!(there(host, false), target);
        }
        assert_eq!(there("db1", true), "db1:null:1024t");
    }
}
