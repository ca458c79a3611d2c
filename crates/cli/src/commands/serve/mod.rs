//! `haul serve`: gives clients with the printed line access to a directory or a pipe.

mod content;

use std::ffi::OsStr;
use std::io::{ErrorKind, IsTerminal, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use haul_base::copy::credentials::{ClientCredentials, KnownClient, OPEN, PrivateKey, Secret};
use haul_base::sys::describe::without_numbers;
use haul_control::secret_file::{self, SecretFileState};
use haul_control::served_operand::PORT;
use haul_engine::policy::audit::AuditDestination;
use haul_engine::worker::client_limits::{ServePolicy, ServedAccess, sandbox};
use haul_proto::path::escape;
use haul_proto::wire::sandbox::Confinement;
use haul_serve::{
    ReloadedOffer, ServeEvent, ServeListener, ServeOffer, ServeUntil, ServedContent, ServedCredential, ServedDirectory,
};
use haul_show::exit::Exit;
use haul_show::output::print;
use haul_show::served::{line, object, reloaded, unconfined};
use haul_show::{self as show};
use ipnet::IpNet;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::argument::bad;
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, contradiction, flags};
use crate::commands::own_program::own_program;
use crate::metrics::http::{MetricsAddress, MetricsListener};
use crate::metrics::serve::ServeMetrics;
use crate::signals::not_caught;
use crate::standing;
use crate::standing::StandingDirectory;

/// Default limit of concurrent clients.
const CLIENTS: u32 = 16;
/// Time for running copies after a stop request.
const GRACE: Duration = Duration::from_secs(30);

/// Serves the operand, the program of `--pipe`, or the directories of a file, until a stop request.
pub fn run(values: &Values, operand: Option<&OsStr>) -> anyhow::Result<Exit> {
    if let Some(file) = values.last(&flags::serve::NEW_KEY) {
        print(&format!("{}\n", secret_file::make_key(file)?));
        return Ok(Exit::Done);
    }
    let served = content::served(values, operand)?;
    let is_standing = served.is_none();
    let StandingDirectory { directories, key, metrics } = match served {
        Some((content, access)) => one(values, content, access)?,
        None => several(values)?,
    };
    let pass = shown_credentials(values, &directories, key.as_ref())?;
    let sandboxed = check_sandbox(values)?;
    let only = directories.first().filter(|_| !is_standing).cloned();
    let is_standard = only.as_ref().is_some_and(|one| matches!(one.content, ServedContent::Standard(_)));
    let until = until(values, is_standard)?;
    let clients = values.get(&flags::serve::CLIENTS)?.unwrap_or(CLIENTS);
    let clients = if is_standard { 1 } else { clients };
    let address = values.get(&flags::serve::BIND)?.map(|text| address(&text)).transpose()?;
    let ports = values.get(&flags::serve::PORT)?.or(is_standing.then_some((PORT, PORT)));
    let offer = ServeOffer {
        directories,
        key,
        clients_max: usize::try_from(clients)?,
        rate: values.get(&flags::XFRRATE)?,
        sandboxed,
        audit: audit(values)?,
        deltas: values.get(&flags::serve::DELTA)?.unwrap_or(true),
        address,
        data_ports: ports.filter(|(first, last)| first < last).map(|(first, last)| (first + 1, last)),
        program: own_program(),
    };
    for directory in offer.directories.iter().filter(|directory| !directory.open_to.is_empty()) {
        eprintln!("{}", show::served::open(directory, values.is_set(&flags::JSON)));
    }
    let stop = stop_on_signals().map_err(not_caught)?;
    let is_json = values.is_set(&flags::JSON);
    let log = if is_json { object } else { line };
    let (metrics_address, metrics) = (metrics_address(values, metrics)?, Arc::new(ServeMetrics::default()));
    let counted = Arc::clone(&metrics);
    let say = move |served: &ServeEvent| {
        counted.count(served);
        // A closed log does not end copies.
        let _ = writeln!(std::io::stderr().lock(), "{}", log(served));
    };
    let listen = ports.map(|(first, _)| (first, first));
    let server = ServeListener::bind(listen, offer, Box::new(say)).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow::anyhow!("{error}: choose another with --port"),
        _ => anyhow::Error::new(error),
    })?;
    let names = values.all(&flags::serve::METRICS_HOST)?;
    let _metrics = metrics_address.map(|address| serve_metrics(&address, names, metrics)).transpose()?;
    let hangup = Hangup::catch(is_standing).map_err(not_caught)?;
    let line = line_for_clients(address, server.port()?, &pass, only.as_ref());
    announce(&line, only.as_ref(), values.last(&flags::serve::SECRET_FILE), is_standard)?;
    drop(only);
    let reload = || hangup.take_caught().then(|| reload(values, is_json)).flatten();
    let copied = server.run(until, &stop, reload);
    Ok(if until.once && !copied { Exit::Interrupted } else { Exit::Done })
}

/// The end of the server: after one client for a standard stream.
fn until(values: &Values, is_standard: bool) -> Result<ServeUntil, UsageError> {
    Ok(ServeUntil {
        once: values.is_set(&flags::serve::ONCE) || is_standard,
        deadline: values.get(&flags::serve::FOR)?.map(|time| Instant::now() + time),
        grace: values.get(&flags::serve::GRACE)?.unwrap_or(GRACE),
    })
}

/// The address of the option, or that of the file.
fn metrics_address(values: &Values, in_file: Option<String>) -> Result<Option<MetricsAddress>, UsageError> {
    let Some(text) = values.get(&flags::serve::METRICS)?.or(in_file) else { return Ok(None) };
    MetricsAddress::parse(&text).map(Some).ok_or_else(|| {
        UsageError::new(format!("--metrics {}: not an address", escape(text.as_bytes())))
            .remedy("such as 127.0.0.1:9700, [::1]:9700 or unix:/run/haul/metrics")
    })
}

fn serve_metrics(
    address: &MetricsAddress,
    names: Vec<String>,
    metrics: Arc<ServeMetrics>,
) -> anyhow::Result<MetricsListener> {
    MetricsListener::start(address, names, metrics).map_err(|error| {
        let remedy =
            if error.kind() == ErrorKind::AddrInUse { "\nchoose another, or stop who listens there" } else { "" };
        anyhow::anyhow!(
            "--metrics {}: {}{remedy}",
            escape(address.to_string().as_bytes()),
            without_numbers(&error.to_string())
        )
    })
}

/// Reloads the file after SIGHUP. An invalid file changes nothing.
fn reload(values: &Values, is_json: bool) -> Option<ReloadedOffer> {
    let read =
        several(values).map(|StandingDirectory { directories, key, metrics: _ }| ReloadedOffer { directories, key });
    let _ = writeln!(std::io::stderr().lock(), "{}", reloaded(read.as_ref().err(), is_json));
    read.ok()
}

/// SIGHUP reloads the file. A server without a file ignores it, and outlives its terminal.
struct Hangup(Arc<AtomicBool>);

impl Hangup {
    fn catch(has_file: bool) -> std::io::Result<Self> {
        let caught = Arc::new(AtomicBool::new(false));
        match has_file {
            true => drop(signal_hook::flag::register(SIGHUP, Arc::clone(&caught))?),
            false => drop(haul_engine::sys::signals::ignore_hangup()?),
        }
        Ok(Self(caught))
    }

    fn take_caught(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// The single directory or pipe, without a name, and its secret.
fn one(values: &Values, content: ServedContent, access: ServedAccess) -> anyhow::Result<StandingDirectory> {
    let open_to = values.each(&flags::serve::OPEN).into_iter().map(network).collect::<Result<Vec<_>, _>>()?;
    if !open_to.is_empty() && access == ServedAccess::Both {
        return Err(UsageError::new("--open lets strangers replace and delete files")
            .remedy("add --read-only, --create or --write-only")
            .into());
    }
    let secret = match values.last(&flags::serve::SECRET_FILE) {
        Some(file) => match secret_file::read(file)? {
            SecretFileState::Secret(secret) => Some(secret),
            SecretFileState::Key(_) => return Err(UsageError::new("keys need haul serve --config FILE").into()),
        },
        None if !open_to.is_empty() => None,
        None => Some(Secret::new().context("cannot generate a secret")?),
    };
    let directory = ServedDirectory {
        name: String::new(),
        content,
        access,
        credentials: secret.map(KnownClient::Secret).map(ServedCredential::lasting).into_iter().collect(),
        open_to,
        clients_max: None,
        rate: None,
        size: values.get(&flags::serve::MAX_SIZE)?,
        files: values.get(&flags::serve::MAX_FILES)?.map(u64::from),
        policy: policy(values),
    };
    Ok(StandingDirectory { directories: vec![directory], key: None, metrics: None })
}

/// The audit log's destination, besides that of the host's policy.
fn audit(values: &Values) -> Result<Option<AuditDestination>, UsageError> {
    let Some(to) = values.last(&flags::serve::AUDIT) else { return Ok(None) };
    let destination = to.to_str().and_then(AuditDestination::parse);
    let why = "must be journal or the absolute path of a file";
    destination
        .map(Some)
        .ok_or_else(|| bad(&flags::serve::AUDIT, to, why).remedy("write --audit journal, or --audit /var/log/haul.log"))
}

/// The policy for all clients, by the options.
fn policy(values: &Values) -> ServePolicy {
    ServePolicy {
        unsafe_links: values.is_set(&flags::serve::ALLOW_UNSAFE_LINKS),
        encryption: values.is_set(&flags::serve::REQUIRE_ENCRYPTION),
        tuning: values.is_set(&flags::serve::ALLOW_TUNING),
    }
}

/// Refuses to serve without a sandbox, unless allowed; warns of a weak one. Returns whether workers need one.
fn check_sandbox(values: &Values) -> anyhow::Result<bool> {
    let (sandbox, is_required) = (sandbox(), is_sandbox_required(values)?);
    match sandbox.confinement {
        Confinement::Full => {}
        Confinement::None if is_required => {
            let text = format!("the kernel cannot confine this server to its directories: {}", sandbox.reason);
            return Err(anyhow::anyhow!(
                "{text}\nuse a kernel with Landlock (Linux 5.13 or later), or --allow-unsandboxed"
            ));
        }
        _ => eprintln!("{}", unconfined(&sandbox.reason, values.is_set(&flags::JSON))),
    }
    Ok(is_required)
}

/// Whether a sandbox is required.
fn is_sandbox_required(values: &Values) -> Result<bool, UsageError> {
    match (values.is_set(&flags::serve::REQUIRE_SANDBOX), values.is_set(&flags::serve::ALLOW_UNSANDBOXED)) {
        (true, true) => Err(contradiction(&flags::serve::REQUIRE_SANDBOX, &flags::serve::ALLOW_UNSANDBOXED)),
        (_, allowed) => Ok(!allowed),
    }
}

/// The directories of the file of `--config`.
fn several(values: &Values) -> Result<StandingDirectory, UsageError> {
    let in_file: &[&OptionRow] = &[&flags::serve::SECRET_FILE, &flags::serve::MAX_SIZE, &flags::serve::MAX_FILES];
    match values.first_of(&[&content::ACCESS, in_file].concat()) {
        Some(option) => {
            Err(contradiction(&flags::serve::CONFIG, option).remedy("set it for each directory in the file"))
        }
        None => {
            let mut standing = standing::read(values.last(&flags::serve::CONFIG).unwrap_or_default())?;
            let all = policy(values);
            standing.directories.iter_mut().for_each(|directory| directory.policy = directory.policy.or(all));
            Ok(standing)
        }
    }
}

/// A network in CIDR notation, or one address.
fn network(text: &OsStr) -> Result<IpNet, UsageError> {
    standing::network(&text.to_string_lossy()).ok_or_else(|| {
        bad(&flags::serve::OPEN, text, "must be a network").remedy("such as 10.1.0.0/16, or one address")
    })
}

fn address(text: &str) -> Result<IpAddr, UsageError> {
    text.parse().map_err(|_| {
        UsageError::new(format!("--bind {}: not an address", escape(text.as_bytes()))).remedy("such as 10.0.0.1 or ::1")
    })
}

/// The credentials in the printed line: the secret, unless it is in a file, or the server's key.
fn shown_credentials(
    values: &Values,
    directories: &[ServedDirectory],
    key: Option<&PrivateKey>,
) -> anyhow::Result<ClientCredentials> {
    let known = directories.first().filter(|one| one.name.is_empty() && !values.is_set(&flags::serve::SECRET_FILE));
    Ok(match (known.and_then(|one| one.credentials.first()), key) {
        (Some(ServedCredential { known: KnownClient::Secret(secret), .. }), _) => {
            ClientCredentials::Secret(secret.clone())
        }
        (None, None) if directories.first().is_some_and(|one| one.name.is_empty() && !one.open_to.is_empty()) => {
            ClientCredentials::Open
        }
        (_, Some(key)) => ClientCredentials::Server(key.public().context("invalid server key")?),
        _ => ClientCredentials::Missing,
    })
}

/// The line for clients. A pipe has the path `-`.
fn line_for_clients(
    bound: Option<IpAddr>,
    port: u16,
    pass: &ClientCredentials,
    only: Option<&ServedDirectory>,
) -> String {
    let address = bound.unwrap_or_else(own_address);
    let host = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
    let is_pipe = only.is_some_and(|one| !matches!(one.content, ServedContent::Directory(_)));
    let pass = match pass {
        ClientCredentials::Secret(secret) => format!("#{}", secret.reveal()),
        ClientCredentials::Server(key) => format!("#{key}"),
        ClientCredentials::Open => format!("#{OPEN}"),
        ClientCredentials::Missing | ClientCredentials::Keys { .. } => String::new(),
    };
    let path = match (is_pipe, pass.is_empty()) {
        (false, _) => "",
        (true, false) => ":-",
        (true, true) => "/-",
    };
    format!("haul://{host}:{port}/{pass}{path}")
}

/// Prints the line, and on a terminal the clients' commands. Standard output may be served.
fn announce(
    line: &str,
    only: Option<&ServedDirectory>,
    secret_file: Option<&OsStr>,
    is_standard: bool,
) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let is_terminal = match is_standard {
        true => {
            writeln!(std::io::stderr().lock(), "{line}")?;
            std::io::stderr().is_terminal()
        }
        false => {
            writeln!(stdout, "{line}")?;
            stdout.flush()?;
            stdout.is_terminal()
        }
    };
    if is_terminal {
        let mut text = show::stderr();
        only.map(|only| client_commands(line, only, secret_file)).iter().flatten().for_each(|command| {
            text.plain(command);
        });
        text.plain("stop   Ctrl-C");
    }
    Ok(())
}

/// A client's commands to send and to fetch.
fn client_commands(line: &str, served: &ServedDirectory, secret_file: Option<&OsStr>) -> Vec<String> {
    let secret = secret_file.map_or("", |_| " --secret-file FILE");
    let (sent, fetched) = match served.content {
        ServedContent::Directory(_) => (format!("-r PATH... '{line}'"), format!("-r '{line}:PATH' ./")),
        ServedContent::Standard(_) | ServedContent::Program(_) => (format!("- '{line}'"), format!("'{line}' -")),
    };
    let send = (served.access != ServedAccess::ReadOnly).then(|| format!("send   haul{secret} {sent}"));
    let fetch = served.access.reads().then(|| format!("fetch  haul{secret} {fetched}"));
    [send, fetch].into_iter().flatten().collect()
}

/// This machine's address: of the fastest interface, IPv4 before IPv6.
fn own_address() -> IpAddr {
    let all = haul_engine::sys::interfaces::addresses();
    let known = all.iter().filter(|local| !is_link_local(&local.address));
    let best = known.max_by_key(|local| (local.address.is_ipv4(), local.mbit_per_s));
    best.map_or(IpAddr::from([127, 0, 0, 1]), |local| local.address)
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// The first SIGINT or SIGTERM waits for copies; the second does not.
fn stop_on_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let status = Exit::Interrupted.number().into();
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn served(content: ServedContent, access: ServedAccess) -> ServedDirectory {
        ServedDirectory {
            name: String::new(),
            content,
            access,
            credentials: Vec::new(),
            open_to: Vec::new(),
            clients_max: None,
            rate: None,
            size: None,
            files: None,
            policy: ServePolicy::default(),
        }
    }

    #[test]
    fn clients_see_the_permitted_commands() {
        let line = "haul://10.0.0.7:40911/#9f";
        let directory = |access| served(ServedContent::Directory(PathBuf::from("/srv")), access);
        let both = [
            "send   haul -r PATH... 'haul://10.0.0.7:40911/#9f'",
            "fetch  haul -r 'haul://10.0.0.7:40911/#9f:PATH' ./",
        ];
        assert_eq!(client_commands(line, &directory(ServedAccess::Both), None), both);
        assert_eq!(client_commands(line, &directory(ServedAccess::ReadOnly), None), both[1..]);
        assert_eq!(client_commands(line, &directory(ServedAccess::Create), None), both[..1]);
        let with_file = client_commands(line, &directory(ServedAccess::WriteOnly), Some(OsStr::new("s")));
        assert_eq!(with_file, ["send   haul --secret-file FILE -r PATH... 'haul://10.0.0.7:40911/#9f'"]);
    }

    #[test]
    fn the_line_of_a_pipe_ends_in_its_path() {
        let address = Some(IpAddr::from([10, 0, 0, 7]));
        let secret = ClientCredentials::Secret(Secret::parse(&"9f".repeat(16)).unwrap());
        let pipe = served(ServedContent::Program("cat".into()), ServedAccess::ReadOnly);
        let line = line_for_clients(address, 5031, &secret, Some(&pipe));
        assert_eq!(line, format!("haul://10.0.0.7:5031/#{}:-", "9f".repeat(16)));
        assert_eq!(client_commands(&line, &pipe, None), [format!("fetch  haul '{line}' -")]);
        let line = line_for_clients(address, 5031, &ClientCredentials::Missing, Some(&pipe));
        assert_eq!(line, "haul://10.0.0.7:5031//-");
    }
}
