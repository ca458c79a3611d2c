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

/// The ends as this machine sees them: near and far.
#[derive(Clone, Copy)]
pub struct Ends {
    near: Role,
    far: Role,
}

impl Ends {
    /// Of this job.
    pub fn of(copy: &Copy<'_>) -> Self {
        let (near, far) = match &copy.job.target.host {
            Host::Remote { .. } => (Role::Source, Role::Target),
            Host::Local => (Role::Target, Role::Source),
        };
        Self { near, far }
    }
}

/// Has the far end listen, if it is `role`, without waiting for its answer: on a long path that saves a round trip.
pub fn listen_early(copy: &mut Copy<'_>, role: Role) -> Result<(), Error> {
    let ends = Ends::of(copy);
    let needs_none = copy.workers.is_one() || copy.job.options.compare;
    if needs_none || ends.far != role || addresses(copy, ends.far).0.is_none() {
        return Ok(());
    }
    copy.listening = Listening::Asked(role);
    copy.workers.send(role, &ControllerMessage::Listen)
}

/// What is known of an end that was told to listen before its answer was waited for.
#[derive(Debug, Default)]
pub enum Listening {
    /// None was.
    #[default]
    No,
    /// It has not answered.
    Asked(Role),
    /// It listens on this port, or cannot.
    Answered(Role, Result<u16, String>),
}

impl Listening {
    /// Takes a worker's message, if it is the answer that is waited for.
    pub fn answered(&mut self, role: Role, message: WorkerMessage) -> Result<(), WorkerMessage> {
        let asked = matches!(self, Self::Asked(asked) if *asked == role);
        let answer = match message {
            WorkerMessage::Listening { port } if asked => Ok(port),
            WorkerMessage::CannotConnect { text } if asked => Err(text),
            other => return Err(other),
        };
        *self = Self::Answered(role, answer);
        Ok(())
    }
}

/// Makes the first data connection, and says how; the others follow by themselves. Also, how many there are at first.
/// [`Way::None`] if everything is settled before there is one, since nothing had to move, and where nothing ever will.
pub fn find(copy: &mut Copy<'_>) -> Result<(Way, u16), Error> {
    if copy.job.options.compare {
        return Ok((Way::None, 0));
    }
    if copy.workers.is_one() {
        return Ok((Way::Local, copy.streams));
    }
    match find_between(copy, Ends::of(copy)) {
        Ok(found) => Ok(found),
        Err(Stop::Over) => Ok((Way::None, 0)),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// Why a way is not looked for any further.
enum Stop {
    /// Both ends have finished.
    Over,
    /// The job cannot go on.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn find_between(copy: &mut Copy<'_>, Ends { near, far }: Ends) -> Result<(Way, u16), Stop> {
    let (far_address, near_address) = addresses(copy, far);
    let failed = match attempt(copy, near, far, &far_address)? {
        Ok((from, to, streams)) => return Ok((Way::Tcp { from, to, instead_of: None }, streams)),
        Err(failed) => failed,
    };
    let there = copy.workers.label(far);
    let first = format!("no connection to {there} ({failed})");
    let failed = match attempt(copy, far, near, &near_address)? {
        Ok((from, to, streams)) => return Ok((Way::Tcp { from, to, instead_of: Some(first) }, streams)),
        Err(failed) => failed,
    };
    tunnel(copy, near, far)?;
    Ok((Way::Ssh { because: format!("{first}, nor from it ({failed})") }, copy.streams))
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
) -> Result<Result<(String, String, u16), String>, Stop> {
    let Some(address) = address else { return Ok(Err("its address is not known".into())) };
    let port = port_of(copy, acceptor)?;
    let port = match port {
        Ok(port) => port,
        Err(text) => return Ok(Err(text)),
    };
    let address = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    copy.workers
        .send(connector, &ControllerMessage::Connect { addresses: vec![address], timeout_ms: CONNECT_TIMEOUT_MS })?;
    wait_for(copy, |role, message| match message {
        WorkerMessage::Connected { from, to, streams } if role == connector => Ok(Ok((from, to, streams))),
        WorkerMessage::CannotConnect { text } if role == connector => Ok(Err(text)),
        other => Err(other),
    })
}

/// Where `acceptor` listens; it is told to, unless it was.
fn port_of(copy: &mut Copy<'_>, acceptor: Role) -> Result<Result<u16, String>, Stop> {
    if !matches!(copy.listening, Listening::Asked(role) | Listening::Answered(role, _) if role == acceptor) {
        copy.listening = Listening::Asked(acceptor);
        copy.workers.send(acceptor, &ControllerMessage::Listen)?;
    }
    loop {
        match std::mem::take(&mut copy.listening) {
            Listening::Answered(_, answer) => return Ok(answer),
            other => copy.listening = other,
        }
        let (role, message) = next(copy)?;
        copy.observe(role, message, false)?;
    }
}

/// Waits for a message that `take` accepts, while others are handled.
fn wait_for<T>(copy: &mut Copy<'_>, take: impl Fn(Role, WorkerMessage) -> Result<T, WorkerMessage>) -> Result<T, Stop> {
    loop {
        let (role, message) = next(copy)?;
        match take(role, message) {
            Ok(taken) => return Ok(taken),
            Err(other) => copy.observe(role, other, false)?,
        }
    }
}

fn next(copy: &mut Copy<'_>) -> Result<(Role, WorkerMessage), Stop> {
    if copy.is_over() { Err(Stop::Over) } else { Ok(copy.receive(false)?) }
}

fn tunnel(copy: &mut Copy<'_>, near: Role, far: Role) -> Result<(), Stop> {
    copy.workers.send(far, &ControllerMessage::Tunnel { connector: false })?;
    copy.workers.send(near, &ControllerMessage::Tunnel { connector: true })?;
    for _ in 0..2 {
        wait_for(copy, |_, message| match message {
            WorkerMessage::Connected { .. } => Ok(()),
            other => Err(other),
        })?;
    }
    Ok(())
}
