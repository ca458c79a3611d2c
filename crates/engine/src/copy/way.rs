//! Finding a way for the data: the initiator's end connects to the address that ssh used; if that fails, the other
//! direction; if that fails too, through ssh itself.

use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;

use super::Copy;
use super::workers::Role;
use crate::error::Error;
use crate::event::Way;
use crate::spec::Host;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT_MS: u32 = 3000;

/// Makes all data connections, and says how.
pub fn find(copy: &mut Copy<'_>) -> Result<Way, Error> {
    if copy.workers.is_one() {
        return Ok(Way::Local);
    }
    let (near, far) =
        if is_remote(&copy.job.target.host) { (Role::Source, Role::Target) } else { (Role::Target, Role::Source) };
    let (far_address, near_address) = addresses(copy, far);
    let failed = match attempt(copy, near, far, &far_address)? {
        Ok((from, to)) => return Ok(Way::Tcp { from, to, instead_of: None }),
        Err(failed) => failed,
    };
    let there = copy.workers.label(far);
    let first = format!("no connection to {there} ({failed})");
    let failed = match attempt(copy, far, near, &near_address)? {
        Ok((from, to)) => return Ok(Way::Tcp { from, to, instead_of: Some(first) }),
        Err(failed) => failed,
    };
    tunnel(copy, near, far)?;
    Ok(Way::Ssh { because: format!("{first}, nor from it ({failed})") })
}

fn is_remote(host: &Host) -> bool {
    matches!(host, Host::Remote { .. })
}

/// The address of the far end and that of the near end as the far end sees it: what ssh itself uses.
fn addresses(copy: &Copy<'_>, far: Role) -> (Option<String>, Option<String>) {
    if let Some(text) = &copy.workers.hello(far).ssh_connection {
        let mut words = text.split_ascii_whitespace();
        let (client, server) = (words.next(), words.nth(1));
        return (server.map(str::to_owned), client.map(str::to_owned));
    }
    let host = match far {
        Role::Source => copy.job.sources.first().map(|source| &source.host),
        Role::Target => Some(&copy.job.target.host),
    };
    match host {
        Some(Host::Remote { name, .. }) => (Some(name.clone()), None),
        _ => (Some("127.0.0.1".into()), Some("127.0.0.1".into())),
    }
}

/// Lets `connector` connect to `acceptor`. The inner error says why that cannot be.
fn attempt(
    copy: &mut Copy<'_>,
    connector: Role,
    acceptor: Role,
    address: &Option<String>,
) -> Result<Result<(String, String), String>, Error> {
    let Some(address) = address else { return Ok(Err("its address is not known".into())) };
    copy.workers.send(acceptor, &ControllerMessage::Listen)?;
    let port = copy.expect(|role, message| match message {
        WorkerMessage::Listening { port } if role == acceptor => Ok(Ok(port)),
        WorkerMessage::CannotConnect { text } if role == acceptor => Ok(Err(text)),
        other => Err(other),
    })?;
    let port = match port {
        Ok(port) => port,
        Err(text) => return Ok(Err(text)),
    };
    let address = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    copy.workers
        .send(connector, &ControllerMessage::Connect { addresses: vec![address], timeout_ms: CONNECT_TIMEOUT_MS })?;
    copy.expect(|role, message| match message {
        WorkerMessage::Connected { from, to } if role == connector => Ok(Ok((from, to))),
        WorkerMessage::CannotConnect { text } if role == connector => Ok(Err(text)),
        other => Err(other),
    })
}

fn tunnel(copy: &mut Copy<'_>, near: Role, far: Role) -> Result<(), Error> {
    copy.workers.send(far, &ControllerMessage::Tunnel { connector: false })?;
    copy.workers.send(near, &ControllerMessage::Tunnel { connector: true })?;
    for _ in 0..2 {
        copy.expect(|_, message| match message {
            WorkerMessage::Connected { .. } => Ok(()),
            other => Err(other),
        })?;
    }
    Ok(())
}
