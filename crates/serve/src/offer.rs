//! Directories that a server offers, their clients, and the server's events.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_base::copy::account::WorkAccount;
use haul_base::copy::credentials::KnownClient;
use haul_base::copy::spec::{PrivateKey, PublicKey, WorkerProgram};
use haul_base::copy::work_progress::WorkProgress;
use haul_engine::policy::audit::AuditDestination;
use haul_engine::worker::client_limits::{ServePolicy, ServedAccess};
use ipnet::IpNet;

/// A served directory.
#[derive(Debug, Clone)]
pub struct ServedDirectory {
    /// Its name; empty for the only one.
    pub name: String,
    /// What it is.
    pub content: ServedContent,
    /// Permitted access.
    pub access: ServedAccess,
    /// Credentials, each of which gives access.
    pub credentials: Vec<ServedCredential>,
    /// Networks that need no credentials.
    pub open_to: Vec<IpNet>,
    /// Most concurrent clients in it; `None` for the server's limit.
    pub clients_max: Option<usize>,
    /// Rate limit in bytes per second for each client and direction; `None` for the server's limit.
    pub rate: Option<u64>,
    /// Most bytes of files from all clients; `None` for no limit.
    pub size: Option<u64>,
    /// Most files, directories and links from all clients; `None` derives it from the bytes.
    pub files: Option<u64>,
    /// Requests that its clients may make.
    pub policy: ServePolicy,
}

/// What a client reaches under the name of a served directory.
#[derive(Debug, Clone)]
pub enum ServedContent {
    /// The directory with this absolute path.
    Directory(PathBuf),
    /// The server's standard input or output. One session uses it up.
    Standard(Arc<OwnedFd>),
    /// A line of shell, started for each client.
    Program(OsString),
}

/// A secret or key that opens a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedCredential {
    /// The client's known secret or key.
    pub known: KnownClient,
    /// Expiry time; `None` for never.
    pub expires: Option<SystemTime>,
}

impl ServedCredential {
    /// Creates a credential that does not expire.
    pub fn lasting(known: KnownClient) -> Self {
        Self { known, expires: None }
    }

    fn is_valid(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl ServedDirectory {
    /// Returns the credentials valid now for a client at this address.
    pub(super) fn valid(&self, peer: IpAddr, now: SystemTime) -> impl Iterator<Item = &KnownClient> {
        let is_open = self.open_to.iter().any(|network| network.contains(&peer.to_canonical()));
        let credentials = self.credentials.iter().filter(move |credential| credential.is_valid(now));
        credentials.map(|credential| &credential.known).chain(is_open.then_some(&KnownClient::Anyone))
    }

    /// Whether this credential opens the directory now to a client at this address.
    pub(super) fn opens_to(&self, known: &KnownClient, peer: IpAddr, now: SystemTime) -> bool {
        self.valid(peer, now).any(|valid| valid == known)
    }
}

/// The parts of an offer that a reload changes.
#[derive(Debug, Clone)]
pub struct ReloadedOffer {
    /// Served directories with their credentials.
    pub directories: Vec<ServedDirectory>,
    /// The server's own key.
    pub key: Option<PrivateKey>,
}

/// A server's offer and limits.
#[derive(Debug, Clone)]
pub struct ServeOffer {
    /// Served directories.
    pub directories: Vec<ServedDirectory>,
    /// Key that authenticates the server to clients with keys.
    pub key: Option<PrivateKey>,
    /// Most concurrent clients.
    pub clients_max: usize,
    /// Rate limit in bytes per second for each client and direction; `None` for no limit.
    pub rate: Option<u64>,
    /// Whether to refuse all clients if the kernel cannot sandbox a worker.
    pub sandboxed: bool,
    /// Whether clients may receive block hashes of the files that theirs replace.
    pub deltas: bool,
    /// An audit log in addition to those of the host's policy.
    pub audit: Option<AuditDestination>,
    /// Address for data connections; `None` for any address.
    pub address: Option<IpAddr>,
    /// First and last port for data connections; `None` for any port that the system chooses.
    pub data_ports: Option<(u16, u16)>,
    /// The program of the workers.
    pub program: WorkerProgram,
}

/// Most places of clients without credentials.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenPlaces {
    /// In all directories.
    pub all: usize,
    /// In one directory.
    pub in_directory: usize,
    /// From one network.
    pub from_network: usize,
}

impl ServeOffer {
    /// Returns the places of clients without credentials: half of all, where others have credentials; half of these for
    /// each of several open directories, and for each network.
    pub(super) fn open_places(&self) -> OpenPlaces {
        let half = |places: usize| places.div_ceil(2);
        let has_credentials = self.directories.iter().any(|directory| !directory.credentials.is_empty());
        let all = if has_credentials { half(self.clients_max) } else { self.clients_max };
        let has_several = self.directories.iter().filter(|directory| !directory.open_to.is_empty()).count() > 1;
        OpenPlaces { all, in_directory: if has_several { half(all) } else { all }, from_network: half(all) }
    }
}

/// An event of a server.
#[derive(Debug, Clone)]
pub enum ServeEvent {
    /// A client authenticated.
    Began {
        /// Address of the client.
        peer: SocketAddr,
        /// The requested directory.
        directory: String,
        /// The client's key, if it used one.
        key: Option<PublicKey>,
        /// Figures of its copy while it runs.
        progress: Option<Arc<WorkProgress>>,
    },
    /// A peer connected and did not authenticate.
    Stranger {
        /// Address of the peer.
        peer: SocketAddr,
        /// Reason of the refusal.
        why: String,
        /// Number of unreported peers since the last report.
        others: u64,
    },
    /// A client authenticated and was refused.
    Refused {
        /// Address of the client.
        peer: SocketAddr,
        /// The requested directory.
        directory: String,
        /// Reason sent to the client.
        why: String,
    },
    /// A client disconnected.
    Ended {
        /// Address of the client.
        peer: SocketAddr,
        /// Its directory.
        directory: String,
        /// Its worker's report, if the worker could still send one.
        account: WorkAccount,
        /// Whether the copy completed.
        whole: bool,
        /// Duration of the session.
        took: Duration,
    },
}

/// Receiver of a server's events.
pub type ServeObserver = dyn Fn(&ServeEvent) + Send + Sync;
