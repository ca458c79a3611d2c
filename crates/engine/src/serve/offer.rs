//! What a server offers, to whom, and what it reports.

use crate::job::account::WorkAccount;
use crate::job::credentials::KnownClient;
use crate::job::spec::PrivateKey;
use crate::job::spec::PublicKey;
use crate::job::spec::WorkerProgram;
use crate::policy::audit::AuditDestination;
use crate::worker::client_limits::ServePolicy;
use crate::worker::client_limits::ServedAccess;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;
/// A directory that is served.
#[derive(Debug, Clone)]
pub struct ServedDirectory {
    /// Its name; empty where it is the only one.
    pub name: String,
    /// Where it is: an absolute path.
    pub path: PathBuf,
    /// What may be done with it.
    pub access: ServedAccess,
    /// Each of these opens it.
    pub credentials: Vec<ServedCredential>,
    /// Most clients in it at a time; `None`: as many as the server takes.
    pub clients_max: Option<usize>,
    /// At most so many bytes a second from and to each of its clients; `None`: what the server says.
    pub rate: Option<u64>,
    /// At most so many bytes of files from all clients; `None` for no limit.
    pub size: Option<u64>,
    /// At most so many files, directories and links from all clients; `None`: what follows from the bytes.
    pub files: Option<u64>,
    /// What its clients may ask for.
    pub policy: ServePolicy,
}

/// A secret or key that opens a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedCredential {
    /// What is known of it.
    pub known: KnownClient,
    /// When it stops being valid; `None`: never.
    pub expires: Option<SystemTime>,
}

impl ServedCredential {
    /// One that does not expire.
    pub fn lasting(known: KnownClient) -> Self {
        Self { known, expires: None }
    }

    fn is_valid(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl ServedDirectory {
    /// What opens it now.
    pub(super) fn valid(&self, now: SystemTime) -> impl Iterator<Item = &KnownClient> {
        self.credentials.iter().filter(move |credential| credential.is_valid(now)).map(|credential| &credential.known)
    }

    /// Whether that opens it now.
    pub(super) fn opens_to(&self, known: &KnownClient, now: SystemTime) -> bool {
        self.valid(now).any(|valid| valid == known)
    }
}

/// What of an offer changes when it is read again.
#[derive(Debug, Clone)]
pub struct ReloadedOffer {
    /// Where files are, and what opens that.
    pub directories: Vec<ServedDirectory>,
    /// The server's own key.
    pub key: Option<PrivateKey>,
}

/// What a server offers, and to how many.
#[derive(Debug, Clone)]
pub struct ServeOffer {
    /// Where files are.
    pub directories: Vec<ServedDirectory>,
    /// What it proves itself with to clients that have keys.
    pub key: Option<PrivateKey>,
    /// Most clients at a time.
    pub clients_max: usize,
    /// At most so many bytes a second from and to each of them; `None` for no limit.
    pub rate: Option<u64>,
    /// Nobody is served where the kernel cannot hold a worker to its directory.
    pub sandboxed: bool,
    /// Clients may be told hashes of blocks of the files that their own replace.
    pub deltas: bool,
    /// An audit log besides those that the host's policy asks for.
    pub audit: Option<AuditDestination>,
    /// Where data is taken; `None`: at any address.
    pub address: Option<IpAddr>,
    /// The ports for data, the first and the last; `None`: any that the system chooses.
    pub data_ports: Option<(u16, u16)>,
    /// What workers are started from.
    pub program: WorkerProgram,
}

/// What a server tells of itself.
#[derive(Debug, Clone)]
pub enum ServeEvent {
    /// A client has proven itself.
    Began {
        /// Where it is.
        peer: SocketAddr,
        /// The directory that it wants.
        directory: String,
        /// The key that it has proven, where it has one.
        key: Option<PublicKey>,
    },
    /// One connected who did not prove itself.
    Stranger {
        /// Where it is.
        peer: SocketAddr,
        /// Why it was not let in.
        why: String,
        /// How many there were before it, since the last that was told of.
        others: u64,
    },
    /// It proved itself, and was turned away.
    Refused {
        /// Where it is.
        peer: SocketAddr,
        /// The directory that it wanted.
        directory: String,
        /// What it was told.
        why: String,
    },
    /// It is gone.
    Ended {
        /// Where it was.
        peer: SocketAddr,
        /// The directory that it had.
        directory: String,
        /// What its worker says, if it could still say so.
        account: WorkAccount,
        /// The copy came to its end.
        whole: bool,
        /// How long it was there.
        took: Duration,
    },
}

/// Who hears of it.
pub type ServeObserver = dyn Fn(&ServeEvent) + Send + Sync;
