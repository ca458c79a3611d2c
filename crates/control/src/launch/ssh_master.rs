//! One login for many commands: an ssh master of haul's own, which outlives a command by a minute.
//!
//! The first ssh logs in as usual, with its questions. Then it leaves the connection to a process in the background
//! (ControlPersist), whose standard streams are /dev/null, and which ends with the connection. ssh itself lets one of
//! several logins have the socket, replaces a stale socket, and logs in again where a master refuses a session
//! (MaxSessions). A master of the user's configuration is used as it is.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use haul_base::copy::error::Error;
use haul_base::copy::spec::{MasterPlace, RemoteAccess};
use haul_base::held_directory::HeldDirectory;
use haul_base::sys::random::random;
use haul_base::trusted_files::{own_directory, quoted};
use haul_proto::checksum::hex;
use rustix::process::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::launch::prompt::peer_of;
use crate::launch::ssh_settings::{SshSettings, keyword_of};
use crate::launch::verified_executable::VerifiedExecutable;

/// How long a master stays without a session, in ssh's words.
const PERSIST: &str = "ControlPersist=60";
/// ssh's options about masters.
const KEYWORDS: [&str; 3] = ["ControlMaster", "ControlPath", "ControlPersist"];
/// Most bytes of a socket's path (unix(7)), without the suffix of ssh's temporary name.
const PATH_MAX: usize = 107 - 17;
/// How long a master may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an agent may take, after a login that is slow already.
const AGENT_PATIENCE: Duration = Duration::from_millis(500);
/// The request for an agent's keys: its length, and SSH_AGENTC_REQUEST_IDENTITIES.
const LIST_KEYS: [u8; 5] = [0, 0, 0, 1, 11];
/// Most bytes of a master's message.
const MESSAGE_MAX: u32 = 4096;
/// Messages of OpenSSH's PROTOCOL.mux: a greeting in version 4, and whether the master lives.
const GREETING: [u32; 3] = [8, 1, 4];
const ALIVE_CHECK: [u32; 3] = [8, 0x1000_0004, 0];
const IS_ALIVE: u32 = 0x8000_0005;

/// The master that a login may use.
#[derive(Debug, Default)]
pub(super) struct SshMaster {
    /// Options that let ssh use or become a master of haul's own.
    pub options: Vec<OsString>,
    /// Whether haul's own runs already.
    pub runs: bool,
    /// What the host has verified of its executable.
    pub verified: VerifiedExecutable,
    /// Its socket, if there is any: haul's own or the user's.
    socket: Option<PathBuf>,
}

impl SshMaster {
    /// Chooses the master for a login with these arguments.
    ///
    /// # Errors
    /// A master of the user's that does not answer.
    pub(super) fn choose(
        settings: &SshSettings,
        arguments: &[OsString],
        access: &RemoteAccess,
        place: &MasterPlace,
    ) -> Result<Self, Error> {
        let users = settings.value("controlpath").map(PathBuf::from);
        if users.is_some() || settings.value("controlmaster").is_some_and(|value| !matches!(value, "false" | "no")) {
            return match users.as_deref().map(ask) {
                Some(MasterState::Hangs) => Err(hangs(&users.unwrap_or_default())),
                _ => {
                    let verified = private_directory(place)
                        .map(|own| VerifiedExecutable::of(&own, &name(settings, arguments, place)));
                    Ok(Self { socket: users, verified: verified.unwrap_or_default(), ..Self::default() })
                }
            };
        }
        let is_typed = |option: &String| KEYWORDS.iter().any(|known| keyword_of(option).eq_ignore_ascii_case(known));
        if settings.is_empty() || access.login.no_ssh_reuse || access.login.ssh_options.iter().any(is_typed) {
            return Ok(Self::default());
        }
        let Some(directory) = private_directory(place) else { return Ok(Self::default()) };
        let name = name(settings, arguments, place);
        let verified = VerifiedExecutable::of(&directory, &name);
        let Some((socket, runs)) = own_socket(&directory, &name) else { return Ok(Self::default()) };
        let options =
            ["ControlMaster=auto".to_owned(), format!("ControlPath={}", socket.display()), PERSIST.to_owned()];
        let options = options.into_iter().flat_map(|option| ["-o".into(), option.into()]).collect();
        Ok(Self { options, runs, verified, socket: Some(socket) })
    }

    /// Returns where the master's connection leads, if it has no other.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        match ask(self.socket.as_deref()?) {
            MasterState::Lives(process) => peer_of(process),
            MasterState::Gone | MasterState::Hangs => None,
        }
    }
}

fn hangs(socket: &Path) -> Error {
    let socket = quoted(socket);
    Error::Connect(format!(
        "the ssh master at {socket} does not answer within {} s\n\
         end its process, or log in without it: --ssh-option ControlPath=none",
        PATIENCE.as_secs()
    ))
}

/// Makes the directory of sockets and records, if it can be this user's alone.
pub(super) fn private_directory(place: &MasterPlace) -> Option<PathBuf> {
    let directory = place.directory.as_deref().filter(|path| path.parent().is_some_and(Path::is_dir))?;
    HeldDirectory::create_private(directory).ok()?;
    own_directory(directory).ok()
}

/// Returns the socket of a master of haul's own, if it can be used or made, and whether the master runs. Nobody else can
/// have put it there: the directory is this user's alone.
fn own_socket(directory: &Path, name: &str) -> Option<(PathBuf, bool)> {
    let socket = directory.join(name);
    // ssh expands the path, and splits it at spaces.
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"/-_.+".contains(b);
    let bytes = socket.as_os_str().as_encoded_bytes();
    if bytes.len() > PATH_MAX || !bytes.iter().all(is_plain) {
        return None;
    }
    let is_free = match fs::symlink_metadata(&socket) {
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(found) if !found.file_type().is_socket() || found.uid() != geteuid().as_raw() => false,
        Ok(_) => match ask(&socket) {
            MasterState::Lives(_) => return Some((socket, true)),
            MasterState::Gone => true,
            MasterState::Hangs => fs::remove_file(&socket).is_ok(),
        },
    };
    (is_free && can_listen(directory)).then_some((socket, false))
}

/// Returns a name that differs for different connections, accounts and credentials.
fn name(settings: &SshSettings, arguments: &[OsString], place: &MasterPlace) -> String {
    let mut digest = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        digest.update(&(bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    arguments.iter().for_each(|word| add(word.as_encoded_bytes()));
    add(settings.text().as_bytes());
    let environment = [&place.agent, &place.tickets].into_iter();
    environment.for_each(|path| add(path.as_deref().map_or(b"", |path| path.as_os_str().as_encoded_bytes())));
    // The same key's name may be another key in another directory, and the same host's another host in another network.
    let relative = settings.relative_files().filter_map(|file| std::path::absolute(file).ok());
    relative.chain(fs::read_link("/proc/self/ns/net")).for_each(|path| add(path.as_os_str().as_encoded_bytes()));
    hex(digest.finish().as_ref().get(..16).unwrap_or_default())
}

/// Whether ssh can make a socket here. Where it cannot, it would end after the login.
fn can_listen(directory: &Path) -> bool {
    let Ok(own) = random::<8>() else { return false };
    let [first, second] = ["a", "b"].map(|end| directory.join(format!(".{}{end}", hex(&own))));
    let can = UnixListener::bind(&first).and_then(|_| fs::hard_link(&first, &second)).is_ok();
    [first, second].iter().for_each(|path| drop(fs::remove_file(path)));
    can
}

/// What a master says.
#[derive(Debug, PartialEq, Eq)]
enum MasterState {
    /// It answers, and is this process.
    Lives(u32),
    /// There is none.
    Gone,
    /// It lets in, and says nothing.
    Hangs,
}

fn ask(socket: &Path) -> MasterState {
    let request: Vec<u8> = GREETING.into_iter().chain(ALIVE_CHECK).flat_map(u32::to_be_bytes).collect();
    match exchange(socket, &request, PATIENCE, read_answer) {
        Ok(process) => MasterState::Lives(process),
        Err(error) if is_timeout(&error) => MasterState::Hangs,
        Err(_) => MasterState::Gone,
    }
}

/// Whether an ssh agent lets in, and says nothing.
pub(super) fn agent_hangs(agent: &Path) -> bool {
    let answer = exchange(agent, &LIST_KEYS, AGENT_PATIENCE, |mut connection| read_word(&mut connection));
    answer.is_err_and(|error| is_timeout(&error))
}

/// Sends a request to a named socket, and reads the answer.
fn exchange<T>(
    socket: &Path,
    request: &[u8],
    patience: Duration,
    read: impl FnOnce(&Socket) -> io::Result<T>,
) -> io::Result<T> {
    let connection = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    connection.connect_timeout(&SockAddr::unix(socket)?, patience)?;
    connection.set_read_timeout(Some(patience))?;
    (&connection).write_all(request)?;
    read(&connection)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads a greeting, and then the master's process id.
fn read_answer(mut connection: &Socket) -> io::Result<u32> {
    for _ in 0..2 {
        let length = read_word(&mut connection)?;
        if length > MESSAGE_MAX {
            break;
        }
        let mut message = Vec::new();
        connection.take(length.into()).read_to_end(&mut message)?;
        let mut message = message.as_slice();
        if read_word(&mut message)? == IS_ALIVE {
            read_word(&mut message)?;
            return read_word(&mut message);
        }
    }
    Err(ErrorKind::InvalidData.into())
}

fn read_word(from: &mut impl Read) -> io::Result<u32> {
    let mut word = [0; 4];
    from.read_exact(&mut word)?;
    Ok(u32::from_be_bytes(word))
}

#[cfg(test)]
#[path = "ssh_master_tests.rs"]
mod tests;
