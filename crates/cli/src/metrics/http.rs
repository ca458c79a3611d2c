//! `haul serve --metrics`: answers `GET /metrics` over HTTP/1.1, several requests at a time. A page in a browser whose
//! name leads here (DNS rebinding) gets no answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use haul_engine::preauth::PendingConnections;
use haul_proto::limits::PENDING_CONNECTIONS_MAX;

use super::serve::ServeMetrics;
use super::text::MetricsFormat;

/// Most bytes of a request.
const REQUEST_MAX: usize = 4 << 10;
/// Time for a request and its answer.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Pause after an error of accept, such as a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const UNIX: &str = "unix:";

/// The address of the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl MetricsAddress {
    /// `ADDR:PORT` or `unix:PATH`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(UNIX) {
            Some("") => None,
            Some(path) => Some(Self::Unix(path.into())),
            None => text.parse().ok().filter(|address: &SocketAddr| address.port() > 0).map(Self::Tcp),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(to),
            Self::Unix(path) => write!(to, "{UNIX}{}", path.display()),
        }
    }
}

/// A listening socket. A Unix socket is removed at the end.
pub struct MetricsListener {
    socket: PathBuf,
}

impl MetricsListener {
    /// Listens, and starts the accepting thread. `names` are further names of this host.
    pub fn start(address: &MetricsAddress, names: Vec<String>, metrics: Arc<ServeMetrics>) -> io::Result<Self> {
        let accept: Box<AcceptMetricsClient> = match address {
            MetricsAddress::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                Box::new(move || listener.accept().map(|(client, peer)| (Box::new(client) as _, peer.ip())))
            }
            MetricsAddress::Unix(path) => {
                let listener = bind_unix(path)?;
                Box::new(move || {
                    listener.accept().map(|(client, _)| (Box::new(client) as _, Ipv4Addr::LOCALHOST.into()))
                })
            }
        };
        let socket = if let MetricsAddress::Unix(path) = address { path.clone() } else { PathBuf::new() };
        let names = matches!(address, MetricsAddress::Tcp(_)).then(|| names_of_host(names));
        let answers = Arc::new(MetricsAnswers { names, metrics });
        let pending = PendingConnections::new(PENDING_CONNECTIONS_MAX);
        thread::Builder::new().name("haul-metrics".into()).spawn(move || {
            loop {
                match accept() {
                    Ok((client, peer)) => start_answer(&answers, &pending, client, peer),
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        })?;
        Ok(Self { socket })
    }
}

type AcceptMetricsClient = dyn Fn() -> io::Result<(Box<dyn MetricsClient>, IpAddr)> + Send;

/// What requests are answered with.
struct MetricsAnswers {
    /// Names in requests, besides addresses; `None` for any: no browser reaches a socket in the file system.
    names: Option<Vec<String>>,
    metrics: Arc<ServeMetrics>,
}

/// This host's own name, also without its domain, and the given ones.
fn names_of_host(mut names: Vec<String>) -> Vec<String> {
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    names.extend(own.split_once('.').map(|(first, _)| first.to_owned()));
    names.extend(["localhost".to_owned(), own]);
    names
}

/// Answers a client in a thread of its own. Where all places are taken, the oldest client loses its place.
fn start_answer(
    answers: &Arc<MetricsAnswers>,
    pending: &Arc<PendingConnections>,
    mut client: Box<dyn MetricsClient>,
    peer: IpAddr,
) {
    let Some(place) = pending.admit(client.as_fd(), peer) else { return };
    let answers = Arc::clone(answers);
    // Errors of a client are ignored, and so is a lack of threads.
    let _ = thread::Builder::new().name("haul-metrics".into()).spawn(move || {
        let _ = answer(&mut *client, &answers);
        drop(place);
    });
}

impl Drop for MetricsListener {
    fn drop(&mut self) {
        if !self.socket.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

/// Binds a Unix socket. Replaces only the socket of a killed server.
fn bind_unix(path: &PathBuf) -> io::Result<UnixListener> {
    let result = UnixListener::bind(path);
    let is_used = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
    let is_socket = || std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let is_dead = || UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if is_used && is_socket() && is_dead() {
        std::fs::remove_file(path)?;
        return UnixListener::bind(path);
    }
    result
}

/// A connection whose calls have a time limit.
trait MetricsClient: Read + Write + AsFd + Send {
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl MetricsClient for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl MetricsClient for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

fn answer(client: &mut dyn MetricsClient, answers: &MetricsAnswers) -> io::Result<()> {
    let until = Instant::now() + REQUEST_TIME;
    let answer = match read_request(client, until)? {
        Some(request) => reply(&request, answers),
        None => status("431 Request Header Fields Too Large", ""),
    };
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        client.limit(left(until)?)?;
        match client.write(rest)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => rest = &rest[written..],
        }
    }
    Ok(())
}

/// The lines of a request up to the empty one; `None` if they are too long.
fn read_request(client: &mut dyn MetricsClient, until: Instant) -> io::Result<Option<String>> {
    let mut request = Vec::new();
    let mut chunk = [0; REQUEST_MAX];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_MAX {
            return Ok(None);
        }
        client.limit(left(until)?)?;
        match client.read(&mut chunk[..REQUEST_MAX - request.len()])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => request.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(Some(String::from_utf8_lossy(&request).into_owned()))
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn reply(request: &str, MetricsAnswers { names, metrics }: &MetricsAnswers) -> String {
    let mut lines = request.lines();
    let first: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, path, version] = first[..] else { return status("400 Bad Request", "") };
    if !version.starts_with("HTTP/1.") {
        return status("400 Bad Request", "");
    }
    if names.as_ref().is_some_and(|names| !is_for(lines.clone(), names)) {
        return status("421 Misdirected Request", "");
    }
    match (method, path.split('?').next()) {
        ("GET", Some("/metrics")) => {
            let (format, kind) = format(lines);
            let text = metrics.text(format);
            response("200 OK", &format!("Content-Type: {kind}\r\n"), &text)
        }
        (_, Some("/metrics")) => status("405 Method Not Allowed", "Allow: GET\r\n"),
        _ => status("404 Not Found", ""),
    }
}

/// Whether the Host header is an address, or one of these names. Every browser sends one.
fn is_for<'a>(headers: impl Iterator<Item = &'a str>, names: &[String]) -> bool {
    let fields = headers.filter_map(|header| header.split_once(':'));
    fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case("host")).all(|(_, host)| {
        let host = host.trim();
        if let Some(address) = host.strip_prefix('[') {
            return address.split(']').next().is_some_and(|address| address.parse::<IpAddr>().is_ok());
        }
        let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
        name.parse::<IpAddr>().is_ok() || names.iter().any(|own| own.eq_ignore_ascii_case(name))
    })
}

/// The format by the client's Accept header.
fn format<'a>(mut headers: impl Iterator<Item = &'a str>) -> (MetricsFormat, &'static str) {
    let takes_open_metrics = headers.any(|header| {
        let (name, value) = header.split_once(':').unwrap_or_default();
        name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text")
    });
    match takes_open_metrics {
        true => (MetricsFormat::OpenMetrics, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        false => (MetricsFormat::Prometheus, "text/plain; version=0.0.4; charset=utf-8"),
    }
}

fn status(line: &str, headers: &str) -> String {
    response(line, &format!("{headers}Content-Type: text/plain\r\n"), &format!("{line}\n"))
}

fn response(line: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {line}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_a_socket_is_named() {
        let tcp = |text: &str| MetricsAddress::Tcp(text.parse().unwrap());
        for text in ["127.0.0.1:9700", "[::1]:9700"] {
            assert_eq!(MetricsAddress::parse(text), Some(tcp(text)));
        }
        assert_eq!(MetricsAddress::parse("unix:/run/a"), Some(MetricsAddress::Unix("/run/a".into())));
        for text in ["", "9700", "localhost:9700", "127.0.0.1", "127.0.0.1:0", "unix:", "/run/a"] {
            assert_eq!(MetricsAddress::parse(text), None, "{text}");
        }
    }

    fn answers() -> MetricsAnswers {
        MetricsAnswers { names: Some(names_of_host(vec!["gateway.example".into()])), metrics: Arc::default() }
    }

    #[test]
    fn a_name_that_leads_here_is_not_answered() {
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        for (host, is_own) in [
            ("localhost", true),
            ("127.0.0.1:9700", true),
            ("[::1]:9700", true),
            ("Gateway.Example.:9700", true),
            (&*own, true),
            ("rebound.example", false),
            ("127.0.0.1.rebound.example", false),
            ("", false),
            ("localhost\r\nHost: rebound.example", false),
        ] {
            let answer = reply(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"), &answers());
            assert_eq!(answer.starts_with("HTTP/1.1 200 "), is_own, "{host}: {answer}");
        }
    }

    #[test]
    fn a_request_has_one_deadline_however_its_bytes_arrive() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        there.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let late = read_request(&mut here, Instant::now()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        assert!(read_request(&mut here, Instant::now() + REQUEST_TIME).unwrap().is_some());
    }

    #[test]
    fn only_a_request_for_metrics_gets_them() {
        let metrics = answers();
        let line = |request: &str| reply(request, &metrics).lines().next().unwrap_or_default().to_owned();
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET /metrics?name=x HTTP/1.0\r\n\r\n", "200 OK"),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("GET /metrics/../x HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            ("GET /metrics\r\n\r\n", "400 Bad Request"),
            ("GET /metrics HTTP/2\r\n\r\n", "400 Bad Request"),
            ("\u{fffd}\r\n\r\n", "400 Bad Request"),
        ] {
            assert_eq!(line(request), format!("HTTP/1.1 {status}"), "{request}");
        }
        let open = "GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0,*/*\r\n\r\n";
        assert!(reply(open, &metrics).ends_with("# EOF\n"));
    }
}
