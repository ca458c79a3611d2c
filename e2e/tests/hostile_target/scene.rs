//! The setting of an attack: a copy of the real program with a far worker played by the test, files out of its bounds,
//! and observations during the copy.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use haul_e2e::{FakeLink, FakeWorker, ProgramRun, RawAcceptor, Rng, Sandbox};
use haul_lab::{Running, descendants, peak_memory_bytes};
use haul_proto::ids::{CopyNumber, EntryId};
use haul_proto::path::Name;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::counters::{Counters, FinalReport};
use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{ControllerMessage, SessionSettings, SourceRequest, TargetOperand, TargetRequest};

/// Resident memory of any process, whatever a worker says.
pub const MEMORY_MAX: u64 = 200 << 20;
/// Every attack is over by then.
const LIMIT: Duration = Duration::from_secs(28);
/// Bytes of the large file: five frames.
pub const LARGE: usize = 1_200_000;

/// The copy's direction. The far worker is the test's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Push,
    Pull,
}

pub struct Scene {
    pub sandbox: Sandbox,
    pub way: Way,
    fake: FakeWorker,
    running: Option<Running>,
    watch: Option<JoinHandle<u64>>,
    over: Arc<AtomicBool>,
    /// The Requests of the copy.
    pub settings: Option<SessionSettings>,
    pub listener: Option<TcpListener>,
}

/// Every path with attributes that reveal reads and changes.
pub type Snapshot = BTreeMap<PathBuf, (u64, i64, i64, i64, i64)>;

impl Scene {
    /// Starts a copy. A push has three small files, a large one, and links that lead outside.
    pub fn start(way: Way, options: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        for name in ["tree/a", "tree/b", "tree/sub/c"] {
            sandbox.file(name, format!("content of {name}"));
        }
        sandbox.file("tree/large", Rng::new(7).bytes(LARGE));
        sandbox.file("outside/secret", "nobody asked for this");
        sandbox.file("outside/large", vec![7; LARGE]);
        symlink(sandbox.path("outside"), sandbox.path("tree/way-out")).expect("a link");
        symlink("../outside/secret", sandbox.path("tree/secret")).expect("a link");
        sandbox.dir("landing");
        age(&sandbox.path("outside/secret"));
        age(&sandbox.path("outside/large"));
        let fake = FakeWorker::new(&sandbox);
        let command = fake.command(env!("CARGO_BIN_EXE_haul-fake-worker"));
        let (option, operands) = match way {
            Way::Push => ("--target-command", ["tree", "127.0.0.1:/far/target"]),
            Way::Pull => ("--source-command", ["127.0.0.1:/far/tree", "landing"]),
        };
        let haul = sandbox.haul([option, &command, "-r", "--retries", "0", "--compress", "off"]);
        let running = haul.args(options).args(operands).start();
        let (over, pid) = (Arc::new(AtomicBool::new(false)), running.id());
        let watch = thread::spawn({
            let over = Arc::clone(&over);
            move || peak_memory_of_all(pid, &over)
        });
        let (running, watch) = (Some(running), Some(watch));
        Self { sandbox, way, fake, running, watch, over, settings: None, listener: None }
    }

    /// The link to the controller, before anything is said.
    pub fn link(&self) -> FakeLink {
        self.fake.accept(LIMIT).expect("the controller starts its worker")
    }

    /// Entries that must be neither read nor changed.
    pub fn outside(&self) -> Snapshot {
        let mut found = Snapshot::new();
        for name in ["secret", "large"] {
            let path = self.sandbox.path("outside").join(name);
            let meta = fs::symlink_metadata(&path).expect("it is there");
            let times = (meta.len(), meta.atime(), meta.atime_nsec(), meta.mtime(), meta.ctime());
            found.insert(path, times);
        }
        found
    }

    /// All names in the sandbox, including a pull's results.
    pub fn names(&self) -> Vec<PathBuf> {
        let mut names = Vec::new();
        list(&self.sandbox.path(""), &mut names);
        names.retain(|name| !name.starts_with(self.sandbox.home()));
        names
    }

    /// As a target: up to Start; gives the Request.
    pub fn be_target(&mut self, link: &mut FakeLink) -> io::Result<TargetRequest> {
        link.greet()?;
        self.be_target_after_hello(link)
    }

    /// The same behind another Hello.
    pub fn be_target_after_hello(&mut self, link: &mut FakeLink) -> io::Result<TargetRequest> {
        let request = link.wait_for(|message| match message {
            ControllerMessage::Target(request) => Some(request),
            _ => None,
        })?;
        self.settings = Some(request.settings.clone());
        link.report(&target_ready())?;
        link.wait_for(|message| matches!(message, ControllerMessage::Start { .. }).then_some(()))?;
        Ok(request)
    }

    /// As a source: with the requested source argument, up to Start.
    pub fn be_source(&mut self, link: &mut FakeLink) -> io::Result<SourceRequest> {
        link.greet()?;
        let request = self.source_request(link)?;
        link.report(&source_ready())?;
        link.wait_for(|message| matches!(message, ControllerMessage::Start { .. }).then_some(()))?;
        Ok(request)
    }

    pub fn source_request(&mut self, link: &mut FakeLink) -> io::Result<SourceRequest> {
        let request = link.wait_for(|message| match message {
            ControllerMessage::Source(request) => Some(request),
            _ => None,
        })?;
        self.settings = Some(request.settings.clone());
        Ok(request)
    }

    fn copy(&self) -> CopyNumber {
        self.settings.as_ref().map_or(CopyNumber(1), |settings| settings.number)
    }

    /// The end that this way gives to the test, up to Begin.
    pub fn begin(&mut self, link: &mut FakeLink) -> io::Result<()> {
        match self.way {
            Way::Push => self.be_target(link).map(drop),
            Way::Pull => self.be_source(link).map(drop),
        }
    }

    /// As a target: says something to the source.
    pub fn tell(&self, link: &mut FakeLink, message: &TargetMessage) -> io::Result<()> {
        link.send(ControlChannel::Peer, &message.encode(self.copy()))
    }

    /// As a source: says something to the target.
    pub fn offer(&self, link: &mut FakeLink, message: &SourceMessage) -> io::Result<()> {
        link.send(ControlChannel::Peer, &message.encode(self.copy()))
    }

    /// As a target: listens on request, and reads the source's offers until `wanted` accepts one.
    pub fn heard<T>(
        &mut self,
        link: &mut FakeLink,
        mut wanted: impl FnMut(SourceMessage) -> Option<T>,
    ) -> io::Result<T> {
        loop {
            let (channel, content) = link.next_frame()?;
            match channel {
                ControlChannel::Controller => self.answer(link, &content)?,
                ControlChannel::Peer => {
                    // So few names are not packed.
                    let message = SourceMessage::decode(&content, self.copy()).map_err(io::Error::other)?;
                    if let Some(found) = wanted(message) {
                        return Ok(found);
                    }
                }
                ControlChannel::Stream(_) => {}
            }
        }
    }

    fn answer(&mut self, link: &mut FakeLink, content: &[u8]) -> io::Result<()> {
        if let ControllerMessage::Listen { .. } = ControllerMessage::decode(content).map_err(io::Error::other)? {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let port = listener.local_addr()?.port();
            self.listener = Some(listener);
            link.report(&WorkerMessage::Listening { port })?;
        }
        Ok(())
    }

    /// As a target: all entries of the source, once it has offered all.
    pub fn all_offers(&mut self, link: &mut FakeLink) -> io::Result<Vec<Offered>> {
        let mut offered = Vec::new();
        self.heard(link, |message| match message {
            SourceMessage::Offer { first, entries } => {
                let entry = |(at, entry): (u64, haul_proto::entry::Entry)| (EntryId(first.0 + at), entry.kind);
                offered.extend((0..).zip(entries).map(entry));
                None
            }
            SourceMessage::OffersEnd => Some(()),
            _ => None,
        })?;
        Ok(offered)
    }

    /// As a target: answers each offer with this.
    pub fn need(&self, link: &mut FakeLink, offered: &[Offered], of_files: TransferNeed) -> io::Result<()> {
        use haul_proto::entry::EntryContent;
        let need = |kind: &EntryContent| match kind {
            EntryContent::Directory => TransferNeed::All,
            EntryContent::File { .. } => of_files,
            _ => TransferNeed::Nothing,
        };
        let needs = offered.iter().map(|(_, kind)| need(kind)).collect();
        let first = offered.first().map_or(EntryId(0), |(id, _)| *id);
        self.tell(link, &TargetMessage::Want { first, needs })
    }

    /// As a target: receives the next frame, and listens on request.
    pub fn listen(&mut self, link: &mut FakeLink) -> io::Result<()> {
        let (channel, content) = link.next_frame()?;
        if channel == ControlChannel::Controller { self.answer(link, &content) } else { Ok(()) }
    }

    /// As a target: the source's first stream.
    pub fn stream(&mut self, link: &mut FakeLink) -> io::Result<RawAcceptor> {
        while self.listener.is_none() {
            self.listen(link)?;
        }
        match (&self.listener, &self.settings) {
            (Some(listener), Some(settings)) => RawAcceptor::accept(listener, settings),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// As a target: the copy is done, without any data sent.
    pub fn finish_without_data(&mut self, link: &mut FakeLink) -> io::Result<()> {
        let offered = self.all_offers(link)?;
        self.need(link, &offered, TransferNeed::Nothing)?;
        let last = offered.last().map_or(0, |(id, _)| id.0 + 1);
        self.tell(link, &TargetMessage::Done { runs: vec![(EntryId(0), last)] })?;
        let counters = Counters { files_skipped: 4, bytes_skipped: 9, ..Counters::default() };
        link.report(&WorkerMessage::Finished(Box::new(FinalReport { counters, ..FinalReport::default() })))?;
        link.drain();
        Ok(())
    }

    /// Waits for the end of the copy: its output, and the largest memory of one of its processes.
    pub fn end(&mut self) -> (ProgramRun, u64) {
        let running = self.running.take().expect("it ends once");
        let finished = running.finish(LIMIT).expect("it can be waited for");
        self.over.store(true, Ordering::SeqCst);
        let memory = self.watch.take().expect("it ends once").join().expect("it does not panic");
        (ProgramRun::new("haul".into(), &finished), memory)
    }
}

/// An entry of the source.
pub type Offered = (EntryId, haul_proto::entry::EntryContent);

pub fn target_ready() -> WorkerMessage {
    WorkerMessage::TargetReady { boot: [0x5a; 16], device: 1, inode: 2, new_tree: false }
}

pub fn source_ready() -> WorkerMessage {
    let operand = TargetOperand { name: Name::new(b"tree").ok(), directory: true, device: 1, inode: 2 };
    WorkerMessage::SourceReady { operands: vec![Some(operand)], origin: [1; 32] }
}

/// Sets old times, so the system records reads (relatime).
fn age(path: &Path) {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let times = FileTimes::new().set_accessed(long_ago).set_modified(long_ago);
    File::options().write(true).open(path).and_then(|file| file.set_times(times)).expect("it is ours");
}

fn peak_memory_of_all(pid: u32, over: &AtomicBool) -> u64 {
    let mut most = 0;
    while !over.load(Ordering::SeqCst) {
        for process in descendants(pid).into_iter().chain([pid]) {
            most = most.max(peak_memory_bytes(process));
        }
        thread::sleep(Duration::from_millis(10));
    }
    most
}

fn list(path: &Path, names: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(path).expect("it can be listed") {
        let path = entry.expect("an entry").path();
        let is_directory = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        names.push(path.clone());
        if is_directory {
            list(&path, names);
        }
    }
}
