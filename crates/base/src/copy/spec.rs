//! The specification of a copy. Only the command line makes it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use haul_proto::checksum::ChecksumAlgorithm;
pub use haul_proto::compression::{CompressionMethod, CompressionPolicy};
pub use haul_proto::delta::options::{DeltaCounters, DeltaMode, DeltaOptions};
pub use haul_proto::expected_digests::ExpectedDigests;
pub use haul_proto::file_range::{FileRange, RangeLen};
pub use haul_proto::filter::definition::{FileLimits, FilterOptions};
pub use haul_proto::filter::{ListSyntax, PatternList};
use haul_proto::limits::SILENCE_MS;
use haul_proto::mode_rules::ModeRule;
pub use haul_proto::overwrite_policy::OverwritePolicy;
pub use haul_proto::striping::{Striping, StripingPolicy};
pub use haul_proto::sync::{DeleteMode, EarlierCopyUse, EqualityTest, SyncOptions};
pub use haul_proto::wire::owners::{OwnerAccount, OwnerFrom, OwnerMap, OwnerOptions};
pub use haul_proto::wire::preserve::{HolePolicy, MetadataOptions, PreserveOptions, RightsOptions, TimeOptions};
pub use haul_proto::wire::ranges::{PlannedVersion, SourceRange};
pub use haul_proto::wire::request::{SocketOptions, Symlinks};
pub use haul_proto::wire::storage::{CacheUse, DirectIo, Fsync, StorageRequest, Verify};
pub use haul_proto::wire::write_options::{
    DirectoryOptions, LiveSourceOptions, ModeOptions, ParentMetadata, PartialOptions, SkipOptions, WriteOptions,
};

pub use crate::copy::credentials::{ClientCredentials, PrivateKey, PublicKey, Secret};
pub use crate::copy::list::{ListLine, ListReader, SourceList};
use crate::copy::location::{Host, Location};
pub use crate::copy::network::{AddressFamily, CallbackAddress, NetworkOptions, Transport};
pub use crate::copy::null::{NOTHING as NULL_TARGET, is_null, names_null};

/// One copy: sources, target and options. Each may be local or remote.
#[derive(Debug, Clone)]
pub struct CopySpec {
    /// At least one, unless there is a list; all on one host.
    pub sources: Vec<Location>,
    /// Sources read from a list, in place of `sources`.
    pub list: Option<SourceList>,
    /// Their target.
    pub target: Location,
    /// Options of the copy.
    pub options: CopyOptions,
    /// Access to remote hosts.
    pub access: RemoteAccess,
}

impl CopySpec {
    /// The host of all sources.
    pub fn source_host(&self) -> &Host {
        match (&self.list, self.sources.first()) {
            (Some(list), _) => &list.host,
            (None, source) => source.map_or(&Host::Local, |source| &source.host),
        }
    }

    /// Whether a source is `null:`: a measurement with zeros.
    pub fn sends_zeros(&self) -> bool {
        self.sources.iter().any(|source| names_null(source.path.as_os_str()))
    }

    /// The compression that applies: none of zeros, unless the user asked for it.
    pub fn compression(&self) -> CompressionPolicy {
        let streams = &self.options.streams;
        match self.sends_zeros() && !streams.compresses_zeros {
            true => CompressionPolicy::Off,
            false => streams.compression,
        }
    }
}

/// Access to remote hosts, with time limits.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct RemoteAccess {
    /// The login.
    pub login: Login,
    /// The login at a remote target, if it differs from a remote source's.
    pub target_login: Option<Login>,
    /// `-4`, `-6`: ssh's only address family.
    pub family: Option<AddressFamily>,
    /// `--source-command`: how to start the remote side when it is the source; %I %U %H %4 are filled in.
    pub source_command: Option<String>,
    /// `--target-command`: the same when it is the target.
    pub target_command: Option<String>,
    /// Log in to two hosts one after the other, since ssh may ask for passwords.
    pub in_turn: bool,
    /// Much data will go through ssh, so that an ssh master is shared only where a login would ask a question.
    #[serde(skip)]
    pub ssh_carries_data: bool,
    /// `--silence`: time without any data after which an end is given up. At least [`SILENCE_MIN`].
    pub silence: Duration,
    /// ssh's connection timeout, which covers the server's banner and no authentication. An `ssh_options` entry goes
    /// first.
    pub connect_timeout: Duration,
    /// Time limit for the whole login and start; `None` if a user may have to type a password.
    pub greeting_timeout: Option<Duration>,
    /// Time limit from the end of the login to the worker's greeting, and between the steps of its deployment.
    pub start_timeout: Duration,
    /// Restarts after a lost connection.
    pub retries: Retries,
}

/// A login at a host by ssh.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Login {
    /// `-i`: the identity file (a relative path is relative to the working directory).
    pub identity: Option<PathBuf>,
    /// `--ssh-config`: ssh's configuration file, instead of the user's and the system's.
    pub ssh_config: Option<PathBuf>,
    /// `--ssh-port`.
    pub port: Option<u16>,
    /// `--ssh-option`, each as ssh's own `-o` takes it.
    pub ssh_options: Vec<String>,
    /// Whether haul may put a copy of itself on a host that has none.
    pub deploy: bool,
    /// `--worker-binary`: the executable for hosts of its system.
    pub worker_binary: Option<PathBuf>,
    /// `--remote-dir`: where a host without haul gets it, instead of its cache directory. Absolute, or begins with
    /// `~/`, without control characters.
    pub remote_dir: Option<PathBuf>,
    /// `--no-ssh-reuse`: no ssh master of haul's own.
    #[serde(default)]
    pub no_ssh_reuse: bool,
}

impl RemoteAccess {
    /// Returns the access to the target.
    pub fn of_target(mut self) -> Self {
        if let Some(login) = self.target_login.take() {
            self.login = login;
        }
        self
    }
}

/// ssh's connection timeout, unless the user sets one.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a host may take to start haul after the login, unless the user sets a limit: slow start-up files of a login
/// shell take some of it.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Smallest idle timeout: three heartbeats.
pub const SILENCE_MIN: Duration = Duration::from_secs(3);

impl Default for RemoteAccess {
    fn default() -> Self {
        Self {
            login: Login::default(),
            target_login: None,
            family: None,
            source_command: None,
            target_command: None,
            in_turn: false,
            ssh_carries_data: false,
            silence: Duration::from_millis(SILENCE_MS),
            connect_timeout: CONNECT_TIMEOUT,
            greeting_timeout: None,
            start_timeout: START_TIMEOUT,
            retries: Retries::default(),
        }
    }
}

/// Restart policy after a lost connection. All limits start over after an attempt with more progress than all before
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Retries {
    /// `--retries`: most restarts; `None` for no limit.
    pub times: Option<u32>,
    /// `--retry-for`: a time limit; `None` for no limit.
    pub time: Option<Duration>,
    /// Number of started attempts without further progress after which the copy fails: their cause is then not the
    /// connection. `None` for no limit.
    pub breaks: Option<u32>,
    /// Whether to retry the first connection too.
    pub from_the_start: bool,
}

impl Retries {
    /// No restarts.
    pub const NEVER: Self = Self { times: Some(0), time: None, breaks: None, from_the_start: false };
}

impl Default for Retries {
    fn default() -> Self {
        Self { times: None, time: Some(Duration::from_secs(600)), breaks: Some(5), from_the_start: false }
    }
}

/// Options of a copy.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CopyOptions {
    /// Compare both ends without copying. Most other options then have no effect.
    pub compare: bool,
    /// Selection of entries.
    pub source: SourceOptions,
    /// Preserved metadata.
    pub metadata: MetadataOptions,
    /// Changes at the target.
    pub target: TargetOptions,
    /// Reads and writes of files.
    pub storage: StorageOptions,
    /// Transport of the data.
    pub streams: StreamOptions,
    /// Verification.
    pub integrity: IntegrityOptions,
    /// Pipes in place of files.
    #[serde(skip)]
    pub pipes: Pipes,
    /// Reports.
    #[serde(skip)]
    pub reports: ReportOptions,
    /// Conditions that end the copy early.
    pub stop: StopOptions,
    /// `--cpus`: the CPUs of both ends, if they exist there; empty for all.
    pub cpus: Vec<u16>,
    /// Part of the work on a file that several copies share; `None`: whole files.
    #[serde(skip)]
    pub range: Option<CopyRange>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        let owners = OwnerOptions { by_name: true, ..OwnerOptions::default() };
        Self {
            compare: false,
            source: SourceOptions::default(),
            metadata: MetadataOptions { owners, ..MetadataOptions::default() },
            target: TargetOptions {
                delta: DeltaOptions { delta: DeltaMode::Auto, ..DeltaOptions::default() },
                ..TargetOptions::default()
            },
            storage: StorageOptions::default(),
            streams: StreamOptions::default(),
            integrity: IntegrityOptions::default(),
            pipes: Pipes::default(),
            reports: ReportOptions::default(),
            stop: StopOptions::default(),
            cpus: Vec::new(),
            range: None,
        }
    }
}

/// Selection of the source's entries.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct SourceOptions {
    /// `-r`: copy directories with their contents.
    pub recursive: bool,
    /// Treatment of symbolic links below an operand.
    pub symlinks: Symlinks,
    /// Whether links that are operands are treated in the same way, as a sync does; otherwise they are followed.
    #[serde(default)]
    pub judges_operands: bool,
    /// `--readable`, `--no-empty-dirs`: entries that the walk skips.
    pub skip: SkipOptions,
    /// `--chmod`: changes of modes.
    pub modes: Vec<ModeRule>,
    /// `--refuse-growing`, and whether a copy's plan lists the sources.
    pub live: LiveSourceOptions,
    /// `--include`, `--exclude` and similar options.
    pub filters: FilterOptions,
    /// Sources on another host are patterns, which it expands.
    #[serde(skip)]
    pub patterns: bool,
    /// `--dirbase`: base of relative sources; their paths are recreated below the target.
    #[serde(skip)]
    pub base: Option<PathBuf>,
    /// Each source has a base of its own, which ends at its first `/./`.
    #[serde(skip)]
    pub marks_bases: bool,
    /// The target removes entries of the names of sources that do not exist.
    #[serde(skip)]
    pub removes_missing: bool,
}

/// Changes at the target.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct TargetOptions {
    /// Rules for existing and new entries.
    pub write: WriteOptions,
    /// The target directory.
    pub directory: DirectoryOptions,
    /// Partial files and their journals.
    pub partial: PartialOptions,
    /// Use of base files.
    pub delta: DeltaOptions,
    /// Changes that make it match the sources.
    pub sync: SyncOptions,
    /// `--delete=before`: extraneous entries are removed before the copy starts.
    pub delete_first: bool,
}

/// Methods of reading and writing files.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub struct StorageOptions {
    /// `--unbuffered`, `--buffers`, `--cache` at the source.
    pub source: StorageRequest,
    /// `--unbuffered`, `--buffers`, `--cache` at the target.
    pub target: StorageRequest,
    /// `--fsync`: durability before a file counts as copied. [`Verify::Disk`] needs at least [`Fsync::Data`].
    pub fsync: Fsync,
}

/// Data streams.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct StreamOptions {
    /// `-s`: number of streams; `None`: chosen, and changed while the copy runs.
    pub count: Option<u16>,
    /// Encryption.
    pub cipher: Cipher,
    /// `--compress`: compression before encryption. Never within one machine. [`CopySpec::compression`] applies it.
    pub compression: CompressionPolicy,
    /// Compress the zeros of `null:`, too. They would vanish, and the copy would not measure its path.
    pub compresses_zeros: bool,
    /// Payload per frame in bytes, a power of two from 256 KiB to 1 MiB; `None`: chosen.
    pub frame_bytes: Option<u32>,
    /// Bytes encrypted with one key; `None`: the protocol's limit. For tests.
    pub rekey_bytes: Option<u64>,
    /// `--xfrrate`: rate limit of all streams together in bytes per second. [`crate::copy::rate::RateHandle`] changes
    /// it.
    pub rate_bytes_per_s: Option<u64>,
    /// `--congestion`, `-w`, `--qos`: sockets.
    pub socket: SocketOptions,
    /// Options of data connections.
    pub network: NetworkOptions,
    /// Two workers and loopback sockets even if both ends are local: for the demonstration and tests.
    pub within_host: bool,
}

/// Verification and digests.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct IntegrityOptions {
    /// `--verify`: data that the target hashes with BLAKE3 as well.
    pub verify: Verify,
    /// Compute and report the BLAKE3 of each file. It is also computed for `verify`, a `checksum` or an audit log;
    /// otherwise frames have their checks alone.
    pub blake3: bool,
    /// Read existing files at the target, to report their digests too.
    pub digest_existing: bool,
    /// `--checksum`: a digest of each file besides BLAKE3 ([`crate::copy::event::Event::Checksum`]).
    #[serde(skip)]
    pub checksum: Option<ChecksumOptions>,
}

/// Pipes in place of files.
#[derive(Debug, Clone, Default)]
pub struct Pipes {
    /// In place of the only source.
    pub source: Option<PipeEnd>,
    /// In place of the target.
    pub target: Option<PipeEnd>,
}

/// Reports of a copy.
#[derive(Debug, Clone, Copy)]
pub struct ReportOptions {
    /// Report each complete file ([`crate::copy::event::Event::FileDone`]).
    pub files: bool,
    /// Interval of progress reports.
    pub progress_every: Duration,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self { files: false, progress_every: Duration::from_millis(200) }
    }
}

/// Conditions that end a copy early.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub struct StopOptions {
    /// `--duration`: the copy ends successfully after this time of data flow. The target keeps no file.
    pub after: Option<Duration>,
    /// End at the first failed file, with [`crate::copy::error::FIRST_FAILURE`]; at a missing source, before anything
    /// is copied.
    pub at_failure: bool,
}

/// A part of the work on a file that several copies share, a range each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyRange {
    /// A range of the only file. It gets no name at the target.
    One(SourceRange),
    /// All ranges of this length are at the target: name the files.
    Finish(RangeLen),
}

/// A digest of each copied file.
#[derive(Debug, Clone)]
pub struct ChecksumOptions {
    /// The algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// Whether the source computes it, not the target.
    pub at_source: bool,
    /// The expected value; otherwise the file does not get its name.
    pub against: ChecksumReference,
}

/// Use of a digest.
#[derive(Debug, Clone)]
pub enum ChecksumReference {
    /// None: the digest is reported.
    Nothing,
    /// This value for any file.
    Value(Vec<u8>),
    /// The value in the line of the file's name at the target, if any. To be sorted.
    Lines(Arc<ExpectedDigests>),
}

/// A pipe as an end of a copy: read or written once, from beginning to end.
#[derive(Debug, Clone)]
pub enum PipeEnd {
    /// `-`: the caller's standard input or output. The end must be on this host.
    Standard(Arc<OwnedFd>),
    /// `--pipe`: a FIFO, or a program that the end's host starts.
    Named,
    /// `--realtime`: a growing file at the source, followed until it has not grown for this time.
    Growing(Duration),
}

/// The cipher of data streams. All choices authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Cipher {
    /// AES-128-GCM, or ChaCha20-Poly1305 if an end has no AES in hardware.
    #[default]
    Auto,
    /// AES-256-GCM.
    Aes256Gcm,
    /// AES-128-GCM.
    Aes128Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
    /// `--no-encrypt`: payload in the clear, authenticated (GMAC under AES-256-GCM); names and metadata stay encrypted.
    AuthenticateOnly,
}

/// The workers' executable and its environment.
#[derive(Debug, Clone, Default)]
pub struct WorkerProgram {
    /// The running executable: started again for local workers, copied to hosts that have none.
    pub executable: PathBuf,
    /// The arguments that make it a worker.
    pub worker_arguments: Vec<OsString>,
    /// Directories to search for executables of this release for other systems.
    pub executables_for_others: Vec<PathBuf>,
    /// Masters of ssh logins, and what these depend on.
    pub masters: MasterPlace,
}

/// Where haul's own ssh masters have their sockets, and the environment's part in who logs in.
#[derive(Debug, Clone, Default)]
pub struct MasterPlace {
    /// A directory of this user alone, created if absent. Without one there are no masters.
    pub directory: Option<PathBuf>,
    /// The agent's socket (SSH_AUTH_SOCK).
    pub agent: Option<PathBuf>,
    /// The cache of Kerberos's tickets (KRB5CCNAME).
    pub tickets: Option<PathBuf>,
}
