//! What a job is, in the library's own words: the command line resolves to this, and nothing else does.

use crate::job::location::{Host, Location};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haul_proto::limits::SILENCE_MS;

pub use crate::job::credentials::{ClientCredentials, PrivateKey, PublicKey, Secret};
pub use crate::job::list::{ListLine, ListReader, SourceList};
pub use crate::job::network::{AddressFamily, CallbackAddress, NetworkOptions};
pub use crate::job::null::{NOTHING as NULL_TARGET, is_null, names_null};
pub use haul_proto::checksum::ChecksumAlgorithm;
pub use haul_proto::compression::{CompressionMethod, CompressionPolicy};
pub use haul_proto::delta::options::{DeltaCounters, DeltaMode, DeltaOptions};
pub use haul_proto::expected_digests::ExpectedDigests;
pub use haul_proto::file_range::{FileRange, RangeLen};
pub use haul_proto::filter::PatternList as FilterList;
pub use haul_proto::filter::definition::{FileLimits, FilterOptions};
pub use haul_proto::overwrite_policy::OverwritePolicy;
pub use haul_proto::sync::{DeleteMode, EqualityTest, SyncOptions};
pub use haul_proto::wire::owners::{OwnerAccount, OwnerFrom, OwnerMap, OwnerOptions};
pub use haul_proto::wire::preserve::{HolePolicy, PreserveOptions};
pub use haul_proto::wire::ranges::{PlannedVersion, SourceRange};
pub use haul_proto::wire::storage::{CacheUse, DirectIo, Fsync, Verify};
pub use haul_proto::wire::write_options::{ModeOptions, SkipOptions};

/// One copy: sources, target and options. Each may be local or remote.
#[derive(Debug, Clone)]
pub struct Job {
    /// At least one, unless there is a list; all on one host.
    pub sources: Vec<Location>,
    /// Sources that are read from a list, and then are all that there are.
    pub list: Option<SourceList>,
    /// Where they go.
    pub target: Location,
    /// How they are copied.
    pub options: JobOptions,
    /// How remote hosts are reached.
    pub access: RemoteAccess,
}

impl Job {
    /// The host that all sources are on.
    pub fn source_host(&self) -> &Host {
        match (&self.list, self.sources.first()) {
            (Some(list), _) => &list.host,
            (None, source) => source.map_or(&Host::Local, |source| &source.host),
        }
    }
}

/// How remote hosts are reached, and for how long.
#[derive(Debug, Clone)]
pub struct RemoteAccess {
    /// `-i`: the identity file (a relative path is relative to the working directory).
    pub identity: Option<PathBuf>,
    /// `--ssh-config`: ssh's configuration file, instead of the user's and the system's.
    pub ssh_config: Option<PathBuf>,
    /// `--ssh-port`.
    pub port: Option<u16>,
    /// `--ssh-option`, each as ssh's own `-o` takes it.
    pub ssh_options: Vec<String>,
    /// `-4`, `-6`: the only kind of addresses that ssh uses.
    pub family: Option<AddressFamily>,
    /// `-S`: how to start the remote side when it is the source; %I %U %H %4 are filled in.
    pub source_command: Option<String>,
    /// `-T`: the same when it is the target.
    pub target_command: Option<String>,
    /// Whether haul may put a copy of itself on a host that has none.
    pub deploy: bool,
    /// `--worker-binary`: the executable for hosts of its system.
    pub worker_binary: Option<PathBuf>,
    /// How to log in at a remote target, where that is not as at a remote source.
    pub target_login: Option<Login>,
    /// Somebody may be asked for passwords: where there are two hosts, for one after the other.
    pub in_turn: bool,
    /// `--silence`: an end from which nothing is heard for so long is gone. At least [`SILENCE_MIN`].
    pub silence: Duration,
    /// ssh's connection timeout, which covers the server's banner and no authentication. An `ssh_options` entry goes
    /// first.
    pub connect_timeout: Duration,
    /// Time limit for the whole login and start; `None` for users who may be typing a password.
    pub greeting_timeout: Option<Duration>,
    /// When a job whose connection was lost is begun again.
    pub retries: Retries,
}

/// What of [`RemoteAccess`] is about one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// As [`RemoteAccess::identity`].
    pub identity: Option<PathBuf>,
    /// As [`RemoteAccess::ssh_config`].
    pub ssh_config: Option<PathBuf>,
    /// As [`RemoteAccess::port`].
    pub port: Option<u16>,
    /// As [`RemoteAccess::ssh_options`].
    pub ssh_options: Vec<String>,
    /// As [`RemoteAccess::deploy`].
    pub deploy: bool,
    /// As [`RemoteAccess::worker_binary`].
    pub worker_binary: Option<PathBuf>,
}

impl RemoteAccess {
    /// What of it is about one host.
    pub fn login(&self) -> Login {
        Login {
            identity: self.identity.clone(),
            ssh_config: self.ssh_config.clone(),
            port: self.port,
            ssh_options: self.ssh_options.clone(),
            deploy: self.deploy,
            worker_binary: self.worker_binary.clone(),
        }
    }

    /// What holds for the target.
    pub fn of_target(&self) -> Self {
        match self.target_login.clone() {
            Some(Login { identity, ssh_config, port, ssh_options, deploy, worker_binary }) => Self {
                identity,
                ssh_config,
                port,
                ssh_options,
                deploy,
                worker_binary,
                target_login: None,
                ..self.clone()
            },
            None => self.clone(),
        }
    }
}

/// ssh's connection timeout, unless the user sets one.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// An end beats three times in this time.
pub const SILENCE_MIN: Duration = Duration::from_secs(3);

impl Default for RemoteAccess {
    fn default() -> Self {
        Self {
            identity: None,
            ssh_config: None,
            port: None,
            ssh_options: Vec::new(),
            family: None,
            source_command: None,
            target_command: None,
            deploy: false,
            worker_binary: None,
            target_login: None,
            in_turn: false,
            silence: Duration::from_millis(SILENCE_MS),
            connect_timeout: CONNECT_TIMEOUT,
            greeting_timeout: None,
            retries: Retries::default(),
        }
    }
}

/// Restart policy after a lost connection. All limits start over after an attempt with more progress than all before
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// `--retries`: most restarts; `None` for no limit.
    pub times: Option<u32>,
    /// `--retry-for`: no longer than this; `None` for no such limit.
    pub time: Option<Duration>,
    /// Number of started attempts without further progress after which the job fails: their cause is then not the
    /// connection. `None` for no limit.
    pub breaks: Option<u32>,
    /// Also where a host could not be reached at all, and where there is no connection to another.
    pub from_the_start: bool,
}

impl Retries {
    /// Not at all.
    pub const NEVER: Self = Self { times: Some(0), time: None, breaks: None, from_the_start: false };
}

impl Default for Retries {
    fn default() -> Self {
        Self { times: None, time: Some(Duration::from_secs(600)), breaks: Some(5), from_the_start: false }
    }
}

/// How files are copied.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// `-r`: directories with all that is in them.
    pub recursive: bool,
    /// Copy nothing, change nothing: compare what both ends have. Most of the options below mean nothing then.
    pub compare: bool,
    /// `-f`, `-O`: what becomes of what exists.
    pub overwrite: OverwritePolicy,
    /// `-p`: keep mode, owner and group (the modification time is always kept).
    pub preserve: bool,
    /// `--numeric-ids`, `--usermap`, `--groupmap`, `--chown`: which owner and group that is at the target.
    pub owners: OwnerOptions,
    /// What becomes of symbolic links below an operand.
    pub symlinks: Symlinks,
    /// `-+`, `-^`: what the walk leaves out.
    pub skip: SkipOptions,
    /// What is kept besides bytes, times, modes and owners.
    pub kept: PreserveOptions,
    /// `--include`, `--exclude` and the like: what else it leaves out.
    pub filters: FilterOptions,
    /// `-m`: permission bits of new files, unless [`Self::preserve`] keeps the source's.
    pub modes: ModeOptions,
    /// `-d`: base of relative sources; their paths are recreated below the target. `None`: no base.
    pub base: Option<PathBuf>,
    /// `-F` clears it: a file that cannot fit is refused at once.
    pub check_space: bool,
    /// `-A`: make the target directory.
    pub make_directory: bool,
    /// Whether a directory is copied only into an existing one: no missing target gets its contents.
    pub needs_directory: bool,
    /// `-s`: number of streams; `None` lets haul choose, and change it while the job runs.
    pub streams: Option<u16>,
    /// `-u`: whether the source reads past the page cache.
    pub direct_source: DirectIo,
    /// `-u`: whether the target writes past the page cache.
    pub direct_target: DirectIo,
    /// `--cache`: what stays in the page cache.
    pub cache: CacheUse,
    /// `--duration`: the job ends well after so long a flow of data. The target keeps nothing of it.
    pub duration: Option<Duration>,
    /// `-b`: frames that a stream has under way past the page cache at the source; 0 lets haul choose.
    pub source_under_way: u8,
    /// `-b +N`: the same at the target.
    pub target_under_way: u8,
    /// `--fsync`: what the target waits for before a file counts as copied. Nothing is not enough for [`Verify::Disk`].
    pub fsync: Fsync,
    /// `--delta`, `--inplace`: what becomes of old files in the way.
    pub delta: DeltaOptions,
    /// What the target does besides, so that it becomes what the sources are.
    pub sync: SyncOptions,
    /// `--delete=before`: extraneous entries are removed before the copy starts.
    pub delete_first: bool,
    /// `--remove-source-files`: a sent and verified file is removed at the source.
    pub remove_source_files: bool,
    /// `--congestion`: congestion control of the data streams, by the kernel's name; `None` chooses by the path.
    pub congestion: Option<String>,
    /// `-w`: socket buffer size in bytes; `None` leaves it to the kernel's auto-tuning.
    pub window_bytes: Option<u32>,
    /// `-w =SIZE`, `-U`: no auto-tuning, also where the kernel makes less of it.
    pub window_fixed: bool,
    /// `-q`: traffic class of the data streams' packets; 0 for none.
    pub traffic_class: u8,
    /// How data connections are made.
    pub network: NetworkOptions,
    /// How the data streams are sealed.
    pub cipher: Cipher,
    /// `-c`: compression before encryption. Never within one machine.
    pub compression: CompressionPolicy,
    /// Payload per frame in bytes (a power of two from 256 KiB to 1 MiB); `None` lets haul choose.
    pub frame_bytes: Option<u32>,
    /// Whether each complete file is reported ([`crate::job::event::Event::FileDone`]).
    pub report_files: bool,
    /// Whether the first failed file ends the job, with [`crate::job::error::FIRST_FAILURE`]. A missing source ends it
    /// before anything is copied.
    pub ends_at_failure: bool,
    /// Whether the BLAKE3 of each file is computed, and reported with it. It is computed, too, where `verify`, a
    /// `checksum` or an end's audit log takes it; else frames have their checks alone.
    pub blake3: bool,
    /// Whether files that are there already are read at the target, so that they are reported with a digest too.
    pub digest_existing: bool,
    /// `--verify`: what the target hashes with BLAKE3, too.
    pub verify: Verify,
    /// `--no-resume` clears it: resume partial files, and leave partial files for the next run.
    pub resume: bool,
    /// `-k`, `-a`: do so for files from 1 MiB on; otherwise from 16 MiB on.
    pub small_journals: bool,
    /// `--no-keep` clears it: incomplete files stay after a failed job.
    pub keep_partial: bool,
    /// `-a`: directory for journals of partial files; `None`: beside them.
    pub journal_dir: Option<PathBuf>,
    /// How often progress is reported.
    pub progress_every: Duration,
    /// Two workers and loopback sockets even where both ends are local: for the demonstration and for tests.
    pub sockets: bool,
    /// `-x`: what all streams together may carry, in bytes a second; `None` for no limit. [`crate::job::rate::RateHandle`] changes it.
    pub rate_bytes_per_s: Option<u64>,
    /// `--cpus`: the CPUs that both ends keep to, where they have them; empty for all.
    pub cpus: Vec<u16>,
    /// The one source is a pipe.
    pub source_pipe: Option<PipeEnd>,
    /// The target is a pipe.
    pub target_pipe: Option<PipeEnd>,
    /// `-E`: a digest of each file, beside BLAKE3 ([`crate::job::event::Event::Checksum`]).
    pub checksum: Option<ChecksumOptions>,
    /// Bytes that one key seals before the next is derived; `None` for the protocol's own limit. For tests.
    pub rekey_bytes: Option<u64>,
    /// What is copied of a file that several jobs copy; `None`: all of it.
    pub range: Option<JobRange>,
}

/// A part of the work on a file that several jobs copy, a range each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRange {
    /// A range of the only file. It gets no name at the target.
    One(SourceRange),
    /// All files have all their ranges of this length at the target: they get their names.
    Finish(RangeLen),
}

/// A digest of each file that is copied.
#[derive(Debug, Clone)]
pub struct ChecksumOptions {
    /// Which.
    pub algorithm: ChecksumAlgorithm,
    /// Of what the source reads, and not of what the target writes.
    pub at_source: bool,
    /// The expected value; otherwise the file does not get its name.
    pub against: ChecksumReference,
}

/// Use of a digest.
#[derive(Debug, Clone)]
pub enum ChecksumReference {
    /// None: the digest is reported.
    Nothing,
    /// This, whatever the file.
    Value(Vec<u8>),
    /// The line of the file's name, at the target; of a file without a line, nothing. To be sorted.
    Lines(Arc<ExpectedDigests>),
}

/// An end of a copy that is no file: read or written from its beginning to its end, once.
#[derive(Debug, Clone)]
pub enum PipeEnd {
    /// `-`: the caller's standard input or output. The end has to be on this host.
    Standard(Arc<OwnedFd>),
    /// `-N`: a FIFO, or a program that the end's host starts.
    Named,
    /// `-R`: a source's file that grows, and is followed until it has not grown for so long.
    Growing(Duration),
}

/// What becomes of symbolic links below an operand. An operand that is a link is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// Recreated as they are.
    Keep,
    /// Copied as what they point to.
    Follow,
    /// Left out.
    Ignore,
}

/// How data streams are sealed. There is no unauthenticated choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM, or ChaCha20-Poly1305 where one of the ends has no AES in hardware.
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

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            recursive: false,
            compare: false,
            overwrite: OverwritePolicy::Report,
            preserve: false,
            owners: OwnerOptions { by_name: true, ..OwnerOptions::default() },
            symlinks: Symlinks::Keep,
            skip: SkipOptions::default(),
            kept: PreserveOptions::default(),
            filters: FilterOptions::default(),
            modes: ModeOptions::default(),
            base: None,
            check_space: true,
            make_directory: false,
            needs_directory: false,
            streams: None,
            direct_source: DirectIo::Auto,
            direct_target: DirectIo::Auto,
            cache: CacheUse::Auto,
            duration: None,
            source_under_way: 0,
            target_under_way: 0,
            fsync: Fsync::Full,
            delta: DeltaOptions { delta: DeltaMode::Auto, ..DeltaOptions::default() },
            sync: SyncOptions::default(),
            delete_first: false,
            remove_source_files: false,
            congestion: None,
            window_bytes: None,
            window_fixed: false,
            traffic_class: 0,
            network: NetworkOptions::default(),
            cipher: Cipher::Auto,
            compression: CompressionPolicy::Auto,
            frame_bytes: None,
            report_files: false,
            ends_at_failure: false,
            blake3: false,
            digest_existing: false,
            verify: Verify::Wire,
            resume: true,
            small_journals: false,
            keep_partial: true,
            journal_dir: None,
            progress_every: Duration::from_millis(200),
            sockets: false,
            rate_bytes_per_s: None,
            cpus: Vec::new(),
            source_pipe: None,
            target_pipe: None,
            checksum: None,
            rekey_bytes: None,
            range: None,
        }
    }
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
}
