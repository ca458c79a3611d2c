//! The setting of an attack: a target with a directory to write to, files beside it that must not change, and traps in
//! it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use haul_e2e::{RawStream, Rng, SUITE, Sandbox, WorkerProgramProcess};
use haul_proto::delta::options::{DeltaMode, DeltaOptions};
use haul_proto::ids::{CopyId, CopyNumber, StreamId};
use haul_proto::integrity::{FrameLen, frame_check};
use haul_proto::limits::FRAME_MIN;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::path::Name;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::message::{TargetMessage, TransferNeed};
use haul_proto::wire::preserve::{MetadataOptions, PreserveOptions, RightsOptions};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{ControllerMessage, SessionSettings, TargetOperand, TargetRequest};
use haul_proto::wire::samples;
use haul_proto::wire::storage::Fsync;
use haul_proto::wire::write_options::{PartialOptions, WriteOptions};

use super::raw;

/// Payload of a full frame.
pub const FRAME: u64 = FRAME_MIN as u64;
/// A file of more bytes than this is large.
pub const SMALL_MAX: u64 = FRAME / 4;

/// Every path with attributes that reveal changes.
type Snapshot = BTreeMap<PathBuf, (u32, u64, i64, i64, Vec<u8>)>;

pub struct Scene {
    // Declared first, to be dropped before its directory.
    worker: WorkerProgramProcess,
    sandbox: Sandbox,
    settings: SessionSettings,
    stream: Option<RawStream>,
    port: u16,
    /// Id of the next entry.
    pub next: u64,
    /// Whether files may be replaced.
    pub force: bool,
    /// Whether extended attributes are kept.
    pub keeps_attributes: bool,
}

impl Scene {
    /// A target with requests for a directory, `tree`, and a file, `note`. Its own directory has `way-out` and
    /// `tree/way-out`, symbolic links to a directory outside.
    pub fn new(rng: &mut Rng) -> Self {
        Self::with(rng, |_| {})
    }

    /// The same, with another request.
    pub fn with(rng: &mut Rng, change: impl FnOnce(&mut TargetRequest)) -> Self {
        let sandbox = Sandbox::new();
        let (landing, outside) = (sandbox.dir("landing"), sandbox.dir("outside"));
        sandbox.file("outside/canary", "as it was");
        sandbox.dir("landing/tree");
        symlink(&outside, landing.join("way-out")).expect("a link");
        symlink("../../outside", landing.join("tree/way-out")).expect("a link");
        let mut worker = WorkerProgramProcess::start(&sandbox);
        let settings = settings();
        let force = rng.chance(500);
        let mut request = request(&landing, settings.clone(), force, rng);
        change(&mut request);
        let force = request.write.overwrite == OverwritePolicy::Replace;
        let keeps_attributes = request.metadata.preserve.attributes;
        for message in [
            ControllerMessage::Target(request),
            ControllerMessage::Start { skip: None },
            ControllerMessage::Listen { address: None },
        ] {
            worker.tell(&message);
        }
        let port = worker.wait_for(|message| match message {
            WorkerMessage::Listening { port } => Some(port),
            _ => None,
        });
        Self { worker, sandbox, settings, stream: None, port: port.expect("a port"), next: 0, force, keeps_attributes }
    }

    pub fn landing(&self) -> PathBuf {
        self.sandbox.path("landing")
    }

    /// The path of the directory outside, as a link may hold it.
    pub fn way_out(&self, rng: &mut Rng) -> Vec<u8> {
        let outside = self.sandbox.path("outside");
        match rng.below(3) {
            0 => outside.as_os_str().as_bytes().to_vec(),
            1 => b"../../outside".to_vec(),
            _ => b"way-out".to_vec(),
        }
    }

    /// Everything outside the target's bounds, with attributes that must not change.
    pub fn outside(&self) -> Snapshot {
        let mut found = Snapshot::new();
        // Where haul remembers trees is its own to write to.
        let own = [self.landing(), self.sandbox.home()];
        look(&self.sandbox.path(""), &own, &mut found);
        found.remove(&self.sandbox.path(""));
        found
    }

    /// Says something as the source.
    pub fn say(&mut self, message: &[u8]) {
        self.worker.send(ControlChannel::Peer, message);
    }

    /// Says something over the link that no controller would pass on.
    pub fn say_raw(&mut self, bytes: &[u8]) {
        self.worker.send_raw(bytes);
    }

    /// Offers these entries; gives the id of the first one. The answers are left to be read.
    pub fn offer(&mut self, entries: &[Vec<u8>]) -> u64 {
        let first = self.next;
        self.say(&raw::offer(first, entries));
        self.next += entries.len() as u64;
        first
    }

    /// Offers the requested directory; gives its id.
    pub fn open_tree(&mut self) -> u64 {
        self.offer(&[raw::operand(raw::DIRECTORY, 0, &[])])
    }

    /// Offers these entries and waits for the answers, one for each. The target must not call it a fault.
    pub fn needs(&mut self, entries: &[Vec<u8>]) -> Vec<TransferNeed> {
        let id = self.offer(entries);
        let asked = self.wait_for(|message| match message {
            TargetMessage::Want { first, needs } if first.0 == id => Some(needs),
            _ => None,
        });
        asked.expect("an offer that is no fault is answered")
    }

    /// Waits for a message to the source that `wanted` accepts; the error is a fault that the target found first.
    pub fn wait_for<T>(&mut self, wanted: impl Fn(TargetMessage) -> Option<T>) -> Result<T, String> {
        loop {
            let Some((channel, content)) = self.worker.next_frame() else { return Err("it is gone".into()) };
            match channel {
                ControlChannel::Peer => {
                    let message =
                        TargetMessage::decode(&content, CopyNumber(raw::COPY)).expect("a target keeps to the protocol");
                    if let Some(found) = wanted(message) {
                        return Ok(found);
                    }
                }
                _ => {
                    if let Ok(WorkerMessage::Fatal { text, .. }) = WorkerMessage::decode(&content) {
                        return Err(text);
                    }
                }
            }
        }
    }

    /// Sends a record on the only stream, connected on first use.
    pub fn record(&mut self, payload: &[u8], trailer: &[u8]) {
        let (port, settings) = (self.port, &self.settings);
        let connect = || RawStream::connect(port, settings, StreamId(0)).expect("who knows the secret may connect");
        // A target that has found a fault reads no more.
        let _ = self.stream.get_or_insert_with(connect).send(payload, trailer);
    }

    /// Sends small files of these lengths, all of it as it should be.
    pub fn pack(&mut self, files: &[(u64, u64)]) {
        let payload = vec![b'h'; usize::try_from(files.iter().map(|(_, len)| len).sum::<u64>()).expect("short files")];
        let trailer = raw::pack(files, frame_check(&payload));
        self.record(&payload, &trailer);
    }

    /// The fault that the target finds; `None` where it ends without a word.
    pub fn fault(&mut self) -> Option<String> {
        self.worker.wait_for(|message| match message {
            WorkerMessage::Fatal { text, .. } => Some(text),
            _ => None,
        })
    }

    /// Whether the copy can go on: a harmless file is taken. The error is the fault.
    pub fn goes_on(&mut self) -> Result<(), String> {
        let id = self.offer(&[raw::operand(raw::FILE, 1, &raw::number(5))]);
        let asked = self.wait_for(|message| match message {
            TargetMessage::Want { first, needs } if first.0 == id => Some(needs),
            _ => None,
        });
        assert_eq!(asked?, [TransferNeed::All]);
        self.pack(&[(id, 5)]);
        self.wait_for(|message| match message {
            TargetMessage::Done { runs } => {
                runs.iter().any(|(first, many)| (first.0..first.0 + many).contains(&id)).then_some(())
            }
            _ => None,
        })
    }

    /// Ends the target: its exit status. Its memory has to be bounded.
    pub fn end(self, what: &str) -> Option<i32> {
        self.worker.end(what)
    }
}

fn settings() -> SessionSettings {
    SessionSettings {
        // Each scene is a copy of its own: a worker ends the earlier one of its copy.
        copy: CopyId(aws_lc_rs::rand::generate(&aws_lc_rs::rand::SystemRandom::new()).expect("random bytes").expose()),
        suite: SUITE,
        frame: FrameLen::new(FRAME_MIN).expect("a frame's length"),
        report_files: true,
        silence_ms: 60_000,
        ..samples::settings()
    }
}

fn request(landing: &Path, settings: SessionSettings, force: bool, rng: &mut Rng) -> TargetRequest {
    let operand = |name: &[u8], directory| TargetOperand { name: Name::new(name).ok(), directory, device: 0, inode: 0 };
    TargetRequest {
        settings,
        path: landing.as_os_str().as_bytes().to_vec(),
        operands: vec![operand(b"tree", true), operand(b"note", false)],
        metadata: MetadataOptions {
            rights: RightsOptions { mode: rng.chance(500), owner: rng.chance(500), group: rng.chance(500) },
            executability: false,
            preserve: PreserveOptions { attributes: rng.chance(500), ..PreserveOptions::default() },
            ..MetadataOptions::default()
        },
        digest_existing: rng.chance(500),
        write: WriteOptions {
            overwrite: if force { OverwritePolicy::Replace } else { OverwritePolicy::Report },
            ..WriteOptions::default()
        },
        partial: PartialOptions { keep: rng.chance(500), ..PartialOptions::default() },
        fsync: Fsync::Full,
        delta: DeltaOptions { delta: DeltaMode::Auto, ..DeltaOptions::default() },
        ..samples::target_request()
    }
}

fn look(path: &Path, left_out: &[PathBuf], found: &mut Snapshot) {
    let meta = fs::symlink_metadata(path).expect("it is there");
    let content = match meta.file_type() {
        kind if kind.is_file() => fs::read(path).expect("it can be read"),
        kind if kind.is_symlink() => fs::read_link(path).expect("a link").into_os_string().as_bytes().to_vec(),
        _ => Vec::new(),
    };
    found.insert(path.to_owned(), (meta.mode(), meta.len(), meta.mtime(), meta.mtime_nsec(), content));
    if meta.is_dir() {
        let entries = fs::read_dir(path).expect("it can be listed").map(|entry| entry.expect("an entry").path());
        entries.filter(|entry| !left_out.contains(entry)).for_each(|entry| look(&entry, left_out, found));
    }
}
