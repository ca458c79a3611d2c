//! A server's log: a line for each start and end of a client, as text or JSON.

use std::fmt::Display;

use haul_base::copy::account::{WorkAccount, WorkDone, WorkKind};
use haul_serve::{ServeEvent, ServedDirectory};
use ipnet::IpNet;
use jiff::Timestamp;
use serde::Serialize;

use crate::json::{encode, sorted};
use crate::text::harmless;
use crate::units::{self, count, counted, size};

/// Formats an event as text, with clients' text escaped.
pub fn line(served: &ServeEvent) -> String {
    harmless(&words(served))
}

fn words(served: &ServeEvent) -> String {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    match served {
        ServeEvent::Began { peer, directory, key, progress: _ } => {
            let key = key.map(|key| format!(" with {key}")).unwrap_or_default();
            format!("{now} {peer} {} connected{key}", name(directory))
        }
        ServeEvent::Stranger { peer, why, others } => {
            let others = if *others == 0 { String::new() } else { format!(", and {others} before") };
            format!("{now} {peer} refused: {why}{others}")
        }
        ServeEvent::Refused { peer, directory, why } => {
            format!("{now} {peer} {} refused: {}", name(directory), why.lines().next().unwrap_or_default())
        }
        ServeEvent::Ended { peer, directory, account: WorkAccount { did, why, is_idle: _ }, whole, took } => {
            let how = if *whole { "done" } else { "incomplete" };
            let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let seconds = took.as_secs_f64();
            let what = match did {
                Some(WorkDone { what, files, bytes, failed, path }) => {
                    let amount = match what {
                        WorkKind::Made | WorkKind::Removed => counted(*files, "entry", "entries"),
                        _ => format!("{}, {}", units::files(*files), size(*bytes)),
                    };
                    let failed = if *failed == 0 { String::new() } else { format!(", {} failed", count(*failed)) };
                    format!("{} {path}: {amount}{failed}, ", what.word())
                }
                None => String::new(),
            };
            format!("{now} {peer} {} {what}{seconds:.1} s, {how}{why}", name(directory))
        }
    }
}

/// A line of `haul serve --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum ServeLine<'a> {
    Open {
        time: String,
        directory: &'a str,
        networks: Vec<String>,
    },
    Unconfined {
        time: String,
        reason: &'a str,
    },
    Reloaded {
        time: String,
        reason: Option<String>,
    },
    NotReloaded {
        time: String,
        reason: Option<String>,
    },
    Stranger {
        #[serde(flatten)]
        at: ServedClient<'a>,
        reason: &'a str,
        others: u64,
    },
    Connected {
        #[serde(flatten)]
        at: ServedClient<'a>,
        key: Option<String>,
    },
    Refused {
        #[serde(flatten)]
        at: ServedClient<'a>,
        reason: &'a str,
    },
    Ended {
        #[serde(flatten)]
        at: ServedClient<'a>,
        seconds: f64,
        complete: bool,
        reason: Option<&'a str>,
        #[serde(flatten)]
        did: Option<ServedWork<'a>>,
    },
}

/// The time, the client and the directory of an event.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct ServedClient<'a> {
    time: String,
    peer: String,
    directory: &'a str,
}

/// The work of a client.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct ServedWork<'a> {
    direction: &'static str,
    path: &'a str,
    files: u64,
    bytes: u64,
    failed: u64,
}

impl ServeLine<'_> {
    fn text(&self) -> String {
        encode(&Sorted(self)).trim_end().to_owned()
    }
}

/// A line with sorted fields.
struct Sorted<'a>(&'a ServeLine<'a>);

impl Serialize for Sorted<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        sorted(self.0, serializer)
    }
}

/// Formats an event as a JSON line.
pub fn object(served: &ServeEvent) -> String {
    let at = |peer: &std::net::SocketAddr, directory| ServedClient { time: now(), peer: peer.to_string(), directory };
    match served {
        ServeEvent::Began { peer, directory, key, progress: _ } => {
            ServeLine::Connected { at: at(peer, directory), key: key.map(|key| key.to_string()) }.text()
        }
        ServeEvent::Stranger { peer, why, others } => {
            ServeLine::Stranger { at: at(peer, ""), reason: why, others: *others }.text()
        }
        ServeEvent::Refused { peer, directory, why } => {
            ServeLine::Refused { at: at(peer, directory), reason: why }.text()
        }
        ServeEvent::Ended { peer, directory, account: WorkAccount { did, why, is_idle: _ }, whole, took } => {
            let did = did.as_ref().map(|WorkDone { what, files, bytes, failed, path }| ServedWork {
                direction: what.word(),
                path,
                files: *files,
                bytes: *bytes,
                failed: *failed,
            });
            let (at, seconds, reason) = (at(peer, directory), took.as_secs_f64(), why.as_deref());
            ServeLine::Ended { at, seconds, complete: *whole, reason, did }.text()
        }
    }
}

fn now() -> String {
    Timestamp::now().to_string()
}

/// The line about a reload of a standing server's file, or its error.
pub fn reloaded(error: Option<&impl Display>, is_json: bool) -> String {
    let now = Timestamp::now();
    let why = error.map(|error| error.to_string().lines().next().unwrap_or_default().to_owned());
    if is_json {
        let (time, reason) = (now.to_string(), why);
        return match reason {
            Some(_) => ServeLine::NotReloaded { time, reason },
            None => ServeLine::Reloaded { time, reason },
        }
        .text();
    }
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ");
    match why {
        None => format!("{now} configuration reloaded"),
        Some(why) => format!("{now} configuration not reloaded, the old one remains in use: {why}"),
    }
}

/// The warning about workers without a sandbox, or with a partial one.
pub fn unconfined(reason: &str, is_json: bool) -> String {
    let now = Timestamp::now();
    match is_json {
        true => ServeLine::Unconfined { time: now.to_string(), reason }.text(),
        false => {
            let now = now.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("{now} the kernel does not confine this server completely: {reason}")
        }
    }
}

/// The warning at the start about a directory without a secret.
pub fn open(directory: &ServedDirectory, is_json: bool) -> String {
    let now = Timestamp::now();
    let networks: Vec<_> = directory.open_to.iter().map(IpNet::to_string).collect();
    match is_json {
        true => ServeLine::Open { time: now.to_string(), directory: &directory.name, networks }.text(),
        false => format!(
            "{} WARNING: {} ({}) is open to everyone in {}: no secret, and no proof of the server",
            now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            name(&directory.name),
            directory.access.word(),
            networks.join(", ")
        ),
    }
}

fn name(directory: &str) -> &str {
    if directory.is_empty() { "/" } else { directory }
}

#[cfg(test)]
mod tests {
    use haul_proto::path::disturbs;

    use super::*;

    #[test]
    fn a_client_adds_no_invisible_text_to_the_log() {
        let peer = "192.0.2.1:9".parse().unwrap();
        let why = "line\u{2028}zero\u{200b}width\u{202e}\u{e0041}\u{9b}2J".to_owned();
        let served = ServeEvent::Stranger { peer, why: why.clone(), others: 0 };
        assert!(line(&served).ends_with("line\\u{2028}zero\\u{200b}width\\u{202e}\\u{e0041}\\u{9b}2J"));
        let object = object(&served);
        assert!(!object.chars().any(disturbs), "{object}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&object).unwrap()["reason"], why);
    }
}
