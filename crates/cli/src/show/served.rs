//! What a server logs: a line for each client that comes and goes, for people or as JSON.

use haul_engine::job::account::{WorkAccount, WorkDone};
use haul_engine::serve::{ServeEvent, ServedDirectory};
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::json::harmless_json;
use crate::args::UsageError;
use crate::text::harmless;
use crate::units::size;

/// For people. Clients have a say in some of it.
pub fn line(served: &ServeEvent) -> String {
    harmless(&words(served))
}

fn words(served: &ServeEvent) -> String {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    match served {
        ServeEvent::Began { peer, directory, key } => {
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
                Some(WorkDone { what, files, bytes: count, failed, path }) => {
                    let verb = what.word();
                    format!("{verb} {path}: {files} files, {}, {failed} failed, ", size(*count))
                }
                None => String::new(),
            };
            format!("{now} {peer} {} {what}{seconds:.1} s, {how}{why}", name(directory))
        }
    }
}

/// As JSON, one object a line.
pub fn object(served: &ServeEvent) -> String {
    let at = |event: &str, peer: &std::net::SocketAddr, directory: &str, rest: Value| {
        let mut object = json!({
            "event": event,
            "time": Timestamp::now().to_string(),
            "peer": peer.to_string(),
            "directory": directory,
        });
        if let (Value::Object(all), Value::Object(rest)) = (&mut object, rest) {
            all.extend(rest);
        }
        harmless_json(&object.to_string())
    };
    match served {
        ServeEvent::Began { peer, directory, key } => {
            at("connected", peer, directory, json!({ "key": key.map(|key| key.to_string()) }))
        }
        ServeEvent::Stranger { peer, why, others } => {
            at("stranger", peer, "", json!({ "reason": why, "others": others }))
        }
        ServeEvent::Refused { peer, directory, why } => at("refused", peer, directory, json!({ "reason": why })),
        ServeEvent::Ended { peer, directory, account: WorkAccount { did, why, is_idle: _ }, whole, took } => {
            let mut rest = json!({ "seconds": took.as_secs_f64(), "complete": whole, "reason": why });
            if let (Value::Object(rest), Some(did)) = (&mut rest, did) {
                rest.insert("direction".into(), did.what.word().into());
                rest.insert("path".into(), did.path.clone().into());
                rest.insert("files".into(), did.files.into());
                rest.insert("bytes".into(), did.bytes.into());
                rest.insert("failed".into(), did.failed.into());
            }
            at("ended", peer, directory, rest)
        }
    }
}

/// That the file of a standing server was read again, or why it could not be.
pub fn reloaded(error: Option<&UsageError>, is_json: bool) -> String {
    let now = Timestamp::now();
    let why = error.map(|error| error.to_string().lines().next().unwrap_or_default().to_owned());
    if is_json {
        let event = if why.is_some() { "not_reloaded" } else { "reloaded" };
        return json!({ "event": event, "time": now.to_string(), "reason": why }).to_string();
    }
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ");
    match why {
        None => format!("{now} configuration reloaded"),
        Some(why) => format!("{now} configuration not reloaded, the old one remains in use: {why}"),
    }
}

/// That the kernel does not hold the server's workers to their directories, or not in all.
pub fn unconfined(reason: &str, is_json: bool) -> String {
    let now = Timestamp::now();
    match is_json {
        true => json!({ "event": "unconfined", "time": now.to_string(), "reason": reason }).to_string(),
        false => {
            let now = now.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("{now} the kernel does not confine this server completely: {reason}")
        }
    }
}

/// The warning about a directory that needs no secret, at the start.
pub fn open(directory: &ServedDirectory, is_json: bool) -> String {
    let now = Timestamp::now();
    let networks: Vec<_> = directory.open_to.iter().map(IpNet::to_string).collect();
    match is_json {
        true => json!({ "event": "open", "time": now.to_string(), "directory": directory.name, "networks": networks })
            .to_string(),
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
    use super::*;
    use haul_proto::path::disturbs;

    #[test]
    fn a_client_writes_nothing_invisible_into_the_log() {
        let peer = "192.0.2.1:9".parse().unwrap();
        let why = "line\u{2028}zero\u{200b}width\u{202e}\u{e0041}\u{9b}2J".to_owned();
        let served = ServeEvent::Stranger { peer, why: why.clone(), others: 0 };
        assert!(line(&served).ends_with("line\\u{2028}zero\\u{200b}width\\u{202e}\\u{e0041}\\u{9b}2J"));
        let object = object(&served);
        assert!(!object.chars().any(disturbs), "{object}");
        assert_eq!(serde_json::from_str::<Value>(&object).unwrap()["reason"], why);
    }
}
