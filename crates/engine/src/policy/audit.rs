//! The audit log: a line of JSON for each file that a worker sends or receives, if the host's policy requires it.
//!
//! The worker writes only what it has verified itself. Names are escaped and lines have no control characters, so that
//! neither the other end nor the controller can forge a line. The worker opens the log before it confines itself. A log
//! that cannot be opened or written ends the copy.

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{io, thread};

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::entry::EntryKind;
use haul_proto::integrity::Digest;
use haul_proto::path::escape;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use crate::sys::accounts::Accounts;

/// The journal's socket (systemd.journal-fields(7), Native Journal Protocol).
const JOURNAL: &str = "/run/systemd/journal/socket";
/// syslog's socket (syslog(3)).
const SYSLOG: &str = "/dev/log";
/// `LOG_AUTHPRIV | LOG_INFO` in syslog's format.
const SYSLOG_PRIORITY: &str = "<86>";

/// The destination of an audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditDestination {
    /// The system's journal, or syslog without one.
    Journal,
    /// A file, which grows.
    File(PathBuf),
}

impl AuditDestination {
    /// The value of a policy's line; `None` for an invalid one.
    pub fn parse(value: &str) -> Option<Self> {
        match value {
            "journal" => Some(Self::Journal),
            path if path.starts_with('/') && !path.ends_with('/') => Some(Self::File(path.into())),
            _ => None,
        }
    }
}

/// The form for [`AuditDestination::parse`], in UTF-8.
impl fmt::Display for AuditDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal => f.write_str("journal"),
            Self::File(path) => f.write_str(&path.to_string_lossy()),
        }
    }
}

/// The error of a required audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// It cannot be opened.
    #[error("the audit log ({which}) cannot be opened: {}\nthe host's policy requires it", describe(.cause), which = shown(.log))]
    Opening {
        /// The log.
        log: AuditDestination,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// A line cannot be written.
    #[error("the audit log ({which}) cannot be written: {}\nthe host's policy requires it", describe(.cause), which = shown(.log))]
    Writing {
        /// The log.
        log: AuditDestination,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// An earlier line could not be written.
    #[error("cannot write the audit log")]
    EarlierLine,
}

/// The client of a worker.
#[derive(Debug, Clone, Default)]
pub struct AuditClient {
    /// `SSH_CONNECTION`, if ssh started the worker.
    pub ssh_connection: Option<String>,
    /// The client's address and verified key, if a server started the worker.
    pub served: Option<String>,
}

/// The event of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditAction {
    /// A worker has taken a Request.
    Accepted,
    /// The first contents of a large file or a pipe are sent.
    Begun,
    /// A whole file was read and sent.
    Sent,
    /// A file has been received, and has its name.
    Received,
    /// A file was present before.
    Unchanged,
    /// A file was compared, and is equal at both ends.
    Compared,
    /// A file differs between the ends.
    Differs,
    /// A file has failed.
    Failed,
    /// The Request was refused.
    Refused,
    /// An entry except a file was created.
    Made,
    /// It replaced another entry.
    Replaced,
    /// Metadata were changed.
    Changed,
    /// A hard link to a file was made.
    Linked,
    /// An entry was removed.
    Removed,
}

impl AuditAction {
    fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Begun => "begun",
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Unchanged => "unchanged",
            Self::Compared => "compared",
            Self::Differs => "differs",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Made => "made",
            Self::Replaced => "replaced",
            Self::Changed => "changed",
            Self::Linked => "linked",
            Self::Removed => "removed",
        }
    }
}

/// Longest address in a line: IPv6 with a scope. The account can set any variable.
const ADDRESS_MAX: usize = 64;

/// A line of the log.
#[derive(Debug, Clone, Copy)]
pub struct AuditRecord<'a> {
    /// What happened.
    pub action: AuditAction,
    /// The file's path; a relative one begins in the worker's directory.
    pub path: &'a [u8],
    /// Its size in bytes.
    pub bytes: Option<u64>,
    /// Duration of its transfer; a small file in a pack has none of its own.
    pub duration: Option<Duration>,
    /// BLAKE3 of its contents.
    pub digest: Option<&'a Digest>,
    /// Why it failed, or was refused.
    pub reason: Option<&'a str>,
    /// Kind of the created, changed or removed entry.
    pub kind: Option<EntryKind>,
}

impl<'a> AuditRecord<'a> {
    /// A line with this path only.
    pub fn of(action: AuditAction, path: &'a [u8]) -> Self {
        Self { action, path, bytes: None, duration: None, digest: None, reason: None, kind: None }
    }
}

/// An open audit log.
pub struct AuditLog {
    sinks: Vec<AuditSink>,
    /// The worker and its client, as members of a JSON object.
    origin: String,
    /// The base of relative paths.
    directory: PathBuf,
    /// The first error.
    failed: OnceLock<String>,
    /// Ends the copy.
    on_failure: OnceLock<Box<EndJob>>,
}

/// Ends the copy, for this reason.
type EndJob = dyn Fn(&str) + Send + Sync;

enum AuditSink {
    Journal(UnixDatagram),
    Syslog(UnixDatagram),
    /// A file, with one line written at a time.
    File(Mutex<OwnedFd>, PathBuf),
}

impl AuditLog {
    /// Opens all destinations, from `directory`; `None` without any.
    pub fn open(
        to: &[AuditDestination],
        client: &AuditClient,
        directory: PathBuf,
    ) -> Result<Option<Arc<Self>>, AuditError> {
        let sinks: Vec<AuditSink> = to.iter().map(AuditSink::open).collect::<Result<_, _>>()?;
        if sinks.is_empty() {
            return Ok(None);
        }
        let origin = origin(client);
        let (failed, on_failure) = (OnceLock::new(), OnceLock::new());
        Ok(Some(Arc::new(Self { sinks, origin, directory, failed, on_failure })))
    }

    /// Calls `end` from a separate thread at the first write error. Only the first handler counts.
    pub fn on_failure(self: &Arc<Self>, end: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.on_failure.set(Box::new(end));
        if let Some(error) = self.failed.get() {
            self.end(error.clone());
        }
    }

    /// Writes a line. After the first error, all fail.
    pub fn write(self: &Arc<Self>, record: &AuditRecord<'_>) -> Result<(), AuditError> {
        if self.failed.get().is_some() {
            return Err(AuditError::EarlierLine);
        }
        let line = self.line(record, SystemTime::now());
        self.sinks.iter().try_for_each(|sink| sink.write(&line)).inspect_err(|error| self.fail(error))
    }

    /// In a thread, since the caller may hold a lock that the end of the copy needs.
    fn fail(self: &Arc<Self>, error: &AuditError) {
        let text = error.to_string();
        if self.failed.set(text.clone()).is_ok() {
            self.end(text);
        }
    }

    fn end(self: &Arc<Self>, text: String) {
        let audit = Arc::clone(self);
        let end = move || audit.on_failure.get().into_iter().for_each(|end| end(&text));
        // Without that thread, further files still fail.
        let _ = thread::Builder::new().name("haul-audit".into()).spawn(end);
    }

    /// The line of a record.
    fn line(&self, record: &AuditRecord<'_>, now: SystemTime) -> String {
        let path = self.directory.join(OsStr::from_bytes(record.path));
        let mut line = format!("{{\"time\":\"{}\",{},\"action\":\"{}\"", utc(now), self.origin, record.action.word());
        member(&mut line, "path", &escape(path.as_os_str().as_bytes()));
        if let Some(kind) = record.kind {
            member(&mut line, "kind", word(kind));
        }
        if let Some(bytes) = record.bytes {
            let _ = write!(line, ",\"bytes\":{bytes}");
        }
        if let Some(duration) = record.duration {
            let _ = write!(line, ",\"seconds\":{:.3}", duration.as_secs_f64());
        }
        if let Some(digest) = record.digest {
            member(&mut line, "blake3", &haul_proto::checksum::hex(digest));
        }
        if let Some(reason) = record.reason {
            member(&mut line, "reason", &escape(reason.as_bytes()));
        }
        line.push('}');
        line
    }
}

fn word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Directory => "directory",
        EntryKind::File => "file",
        EntryKind::Symlink => "symlink",
        EntryKind::Special => "special",
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl AuditSink {
    fn open(to: &AuditDestination) -> Result<Self, AuditError> {
        let opened = match to {
            AuditDestination::Journal => Self::open_journal(Path::new(JOURNAL), Path::new(SYSLOG)),
            AuditDestination::File(path) => {
                Self::open_file(path).map(|file| Self::File(Mutex::new(file), path.clone()))
            }
        };
        opened.map_err(|cause| AuditError::Opening { log: to.clone(), cause })
    }

    fn open_journal(journal: &Path, syslog: &Path) -> io::Result<Self> {
        let connect = |path: &Path| {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            Ok(socket)
        };
        connect(journal).map(Self::Journal).or_else(|_| connect(syslog).map(Self::Syslog))
    }

    fn open_file(path: &Path) -> io::Result<OwnedFd> {
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file),
            _ => Err(io::Error::other("not a regular file")),
        }
    }

    fn destination(&self) -> AuditDestination {
        match self {
            Self::Journal(_) | Self::Syslog(_) => AuditDestination::Journal,
            Self::File(_, path) => AuditDestination::File(path.clone()),
        }
    }

    fn write(&self, line: &str) -> Result<(), AuditError> {
        self.write_line(line).map_err(|cause| AuditError::Writing { log: self.destination(), cause })
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        let send = |socket: &UnixDatagram, text: String| {
            rustix::io::write(socket, text.as_bytes())?;
            Ok(())
        };
        match self {
            Self::Journal(socket) => send(socket, format!("PRIORITY=6\nSYSLOG_IDENTIFIER=haul\nMESSAGE={line}\n")),
            Self::Syslog(socket) => send(socket, format!("{SYSLOG_PRIORITY}haul[{}]: {line}", std::process::id())),
            Self::File(file, _) => write_all(&lock(file), format!("{line}\n").as_bytes()),
        }
    }
}

/// Writes a line in one call, so that lines of several workers do not mix; a full disk may leave a partial one.
fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn shown(log: &AuditDestination) -> String {
    escape(log.to_string().as_bytes())
}

/// The worker and its client, as members of a JSON object.
fn origin(client: &AuditClient) -> String {
    let uid = rustix::process::geteuid().as_raw();
    let mut origin = format!("\"pid\":{},\"uid\":{uid}", std::process::id());
    if let Some(name) = Accounts::users().name(uid) {
        member(&mut origin, "user", &escape(name));
    }
    if let Some(served) = &client.served {
        member(&mut origin, "client", &escape(served.as_bytes()));
    } else if let Some(address) = client.ssh_connection.as_deref().and_then(|words| words.split(' ').next()) {
        let address: String = address.chars().take(ADDRESS_MAX).collect();
        member(&mut origin, "ssh_from", &escape(address.as_bytes()));
    }
    origin
}

/// Adds a member to a JSON object. `text` has no control characters, only quotes and backslashes to escape.
fn member(object: &mut String, name: &str, text: &str) {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    let _ = write!(object, ",\"{name}\":\"{text}\"");
}

/// A time in RFC 3339 format, in UTC.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, in eras of 400 years (H. Hinnant, chrono-compatible low-level date algorithms).
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month_of_year) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month_of_year <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month_of_year:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    fn audit(sinks: Vec<AuditSink>, served: Option<&str>) -> Arc<AuditLog> {
        let client =
            AuditClient { served: served.map(str::to_owned), ssh_connection: Some("10.0.0.1 5 10.0.0.2 22".into()) };
        Arc::new(AuditLog {
            sinks,
            origin: origin(&client),
            directory: "/served".into(),
            failed: OnceLock::new(),
            on_failure: OnceLock::new(),
        })
    }

    fn received(path: &[u8]) -> AuditRecord<'_> {
        AuditRecord { bytes: Some(3), digest: Some(&[0xab; 32]), ..AuditRecord::of(AuditAction::Received, path) }
    }

    #[test]
    fn times_match_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn no_name_makes_a_second_line_or_another_member() {
        let audit = audit(Vec::new(), Some("k\"\n"));
        let long = [b'\n'; 255];
        for name in
            [&b"a\nb"[..], b"\",\"action\":\"received", b"\\", b"\xff\x00\x1b[2J", "\u{2028}\u{202e}".as_bytes(), &long]
        {
            let line = audit.line(&received(name), UNIX_EPOCH);
            assert!(!line.chars().any(char::is_control) && line.len() < 4096, "{line}");
            assert_eq!(line.matches(",\"action\":\"received\"").count(), 1, "{line}");
            assert!(line.contains("\"client\":\"k\\\"\\\\n\"") && !line.contains("ssh_from"), "{line}");
        }
        let line = audit.line(&received(b"a \"b\"\\\n"), UNIX_EPOCH);
        assert!(line.contains("\"path\":\"/served/a \\\"b\\\"\\\\\\\\\\\\n\",\"bytes\":3,\"blake3\":\"abab"), "{line}");
        assert!(audit.line(&received(b"/x"), UNIX_EPOCH).contains("\"path\":\"/x\""));
    }

    #[test]
    fn no_ssh_connection_makes_a_second_line_or_a_long_one() {
        let long = "9".repeat(100_000);
        for connection in
            ["10.0.0.1\",\"action\":\"received", "a\nb", "\u{1b}[2J\u{202e}\t", "fe80::1%eth0 1 fe80::2 22", &long]
        {
            let client = AuditClient { served: None, ssh_connection: Some(connection.into()) };
            let origin = origin(&client);
            assert!(!origin.chars().any(haul_proto::path::disturbs) && origin.len() < 1000, "{origin}");
            assert!(!origin.contains("\"action\":"), "{origin}");
        }
    }

    #[test]
    fn the_journal_gets_an_entry_and_syslog_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut buffer = [0; 4096];
        let (journal, syslog) = (path("journal"), path("log"));
        assert!(AuditSink::open_journal(&journal, &syslog).is_err());
        let listener = UnixDatagram::bind(&syslog).unwrap();
        audit(vec![AuditSink::open_journal(&journal, &syslog).unwrap()], None).write(&received(b"a")).unwrap();
        let length = listener.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]);
        assert!(text.starts_with("<86>haul[") && text.contains("]: {\"time\":") && text.ends_with('}'), "{text}");
        let listener = UnixDatagram::bind(&journal).unwrap();
        audit(vec![AuditSink::open_journal(&journal, &syslog).unwrap()], None)
            .write(&received(b"a\nPRIORITY=0"))
            .unwrap();
        let length = listener.recv(&mut buffer).unwrap();
        let lines: Vec<String> = String::from_utf8_lossy(&buffer[..length]).lines().map(str::to_owned).collect();
        assert_eq!((lines.len(), lines[0].as_str()), (3, "PRIORITY=6"), "{lines:?}");
        assert!(
            lines[2].starts_with("MESSAGE={\"time\":") && lines[2].contains("\"ssh_from\":\"10.0.0.1\""),
            "{lines:?}"
        );
    }

    #[test]
    fn a_file_grows_and_other_kinds_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("audit");
        for _ in 0..2 {
            let to = [AuditDestination::File(file.clone())];
            let audit = AuditLog::open(&to, &AuditClient::default(), "/".into()).unwrap().unwrap();
            audit.write(&received(b"a")).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [link, directory.path().to_owned(), directory.path().join("absent/audit"), "/dev/null".into()] {
            let opened = AuditLog::open(&[AuditDestination::File(path.clone())], &AuditClient::default(), "/".into());
            let begin = format!("the audit log ({}) cannot be opened: ", path.display());
            assert!(opened.unwrap_err().to_string().starts_with(&begin), "{begin}");
        }
        assert!(AuditLog::open(&[], &AuditClient::default(), "/".into()).unwrap().is_none());
    }

    #[test]
    fn an_unwritable_log_ends_the_copy_once() {
        let full = openat(CWD, "/dev/full", OFlags::WRONLY, Mode::empty()).unwrap();
        let audit = audit(vec![AuditSink::File(Mutex::new(full), "/dev/full".into())], None);
        let line = audit.line(&received(b"a"), UNIX_EPOCH);
        let expected = "the audit log (/dev/full) cannot be written: No space left on device\n";
        assert!(audit.sinks[0].write(&line).unwrap_err().to_string().starts_with(expected));
        let (told, ends) = std::sync::mpsc::channel();
        audit.on_failure(move |text| told.send(text.to_owned()).unwrap());
        assert!(matches!(audit.write(&received(b"a")), Err(AuditError::Writing { .. })));
        assert!(matches!(audit.write(&received(b"b")), Err(AuditError::EarlierLine)));
        assert!(ends.recv_timeout(Duration::from_secs(10)).unwrap().contains("(/dev/full) cannot be written: "));
        assert!(ends.recv_timeout(Duration::from_millis(100)).is_err());
    }
}
