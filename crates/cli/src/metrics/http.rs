//! `haul serve --metrics`: answers `GET /metrics` over HTTP/1.1, one request at a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, thread};

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
    /// Listens, and starts the answering thread.
    pub fn start(address: &MetricsAddress, metrics: Arc<ServeMetrics>) -> io::Result<Self> {
        let accept: Box<dyn Fn() -> io::Result<Box<dyn MetricsClient>> + Send> = match address {
            MetricsAddress::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                Box::new(move || Ok(Box::new(listener.accept()?.0)))
            }
            MetricsAddress::Unix(path) => {
                let listener = bind_unix(path)?;
                Box::new(move || Ok(Box::new(listener.accept()?.0)))
            }
        };
        let socket = if let MetricsAddress::Unix(path) = address { path.clone() } else { PathBuf::new() };
        thread::Builder::new().name("haul-metrics".into()).spawn(move || {
            loop {
                match accept() {
                    // Errors of a client are ignored.
                    Ok(mut client) => drop(answer(&mut *client, &metrics)),
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        })?;
        Ok(Self { socket })
    }
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
trait MetricsClient: Read + Write {
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

fn answer(client: &mut dyn MetricsClient, metrics: &ServeMetrics) -> io::Result<()> {
    let until = Instant::now() + REQUEST_TIME;
    let answer = match read_request(client, until)? {
        Some(request) => reply(&request, metrics),
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

fn reply(request: &str, metrics: &ServeMetrics) -> String {
    let mut lines = request.lines();
    let first: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, path, version] = first[..] else { return status("400 Bad Request", "") };
    if !version.starts_with("HTTP/1.") {
        return status("400 Bad Request", "");
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

    #[test]
    fn only_a_request_for_metrics_gets_them() {
        let metrics = ServeMetrics::default();
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
