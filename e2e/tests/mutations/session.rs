//! One complete session of the real program with the relay in the middle, and its invariants.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_e2e::{FakeWorker, ProgramRun, Rng, Sandbox, ServedShare, WorkerProgramProcess, set_mtime};
use haul_lab::Running;

use super::mutation::Mutator;
use super::relay::{Relay, RelayState};

/// Every session is over by then, on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(25);
/// Bytes of a frame, as `--frame 256k` has it.
const FRAME: usize = 256 << 10;
/// The large files: two frames and a rest.
const LARGE: usize = 2 * FRAME + 4321;

/// One stream, with the suite that the relay speaks.
const STREAM: [&str; 5] = ["--streams", "1", "--cipher", "aes-256-gcm", "--mkdir"];

/// A session's work, as a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Into an empty directory.
    Fresh,
    /// The same, compressed.
    Compressed,
    /// Over old files, by deltas.
    Delta,
    /// A sync that removes extraneous files, except filtered ones.
    Sync,
    /// A comparison, which changes nothing.
    Verify,
}

impl Work {
    pub const ALL: [Self; 5] = [Self::Fresh, Self::Compressed, Self::Delta, Self::Sync, Self::Verify];

    /// A server's permitted work: it preserves no modes, unlike a sync.
    pub const SERVED: [Self; 4] = [Self::Fresh, Self::Compressed, Self::Delta, Self::Verify];

    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Fresh => &["-r", "--hard-links", "--compress", "off"],
            Self::Compressed => &["-r", "--compress", "zstd"],
            Self::Delta => &["-r", "-f", "--delta", "rolling", "--compress", "off"],
            Self::Sync => &["sync", "--delete", "--exclude", "*.o"],
            Self::Verify => &["verify", "-r"],
        }
    }
}

/// Every path with attributes that reveal changes.
pub type Snapshot = BTreeMap<PathBuf, (u32, u64, i64, i64, Vec<u8>)>;

/// The place of a session.
pub struct Session<'a> {
    sandbox: &'a Sandbox,
    name: String,
    work: Work,
    server: Option<&'a ServedShare>,
}

/// The result of a session.
pub struct Outcome {
    pub run: ProgramRun,
    /// Exit status of the far worker, or of the client's end of a served one.
    pub worker: Option<i32>,
    /// Peak of the near worker, in bytes; 0 where it ended before it was looked at.
    pub memory: u64,
    /// The far worker's standard error.
    pub said: String,
    pub state: Arc<RelayState>,
}

impl<'a> Session<'a> {
    /// Prepares the source and the target, in directories of this name.
    pub fn new(sandbox: &'a Sandbox, name: String, work: Work, server: Option<&'a ServedShare>) -> Self {
        let session = Self { sandbox, name, work, server };
        session.make_tree(&session.source(), 7);
        let landing = session.landing();
        fs::create_dir_all(&landing).expect("a directory");
        match work {
            Work::Fresh | Work::Compressed => {}
            Work::Delta | Work::Sync | Work::Verify => session.make_tree(&landing.join("tree"), 8),
        }
        session
    }

    fn source(&self) -> PathBuf {
        self.sandbox.path(&self.name).join("source/tree")
    }

    pub fn landing(&self) -> PathBuf {
        match self.server {
            None => self.sandbox.path(&self.name).join("landing"),
            Some(_) => self.sandbox.path("shared").join(&self.name),
        }
    }

    /// Two trees of different generations differ in a few places of their files.
    fn make_tree(&self, root: &Path, generation: u8) {
        fs::create_dir_all(root.join("sub/empty")).expect("directories");
        let mut rng = Rng::new(42);
        for (number, size) in [0usize, 1, 77, 2000, 5000].into_iter().enumerate() {
            let mut content = rng.bytes(size);
            content.iter_mut().take(1).for_each(|byte| *byte = generation);
            fs::write(root.join(format!("small{number}")), content).expect("a file");
        }
        for name in ["large", "sub/large"] {
            let mut content = rng.bytes(LARGE);
            content[..FRAME / 2].fill(b'z');
            content[FRAME + 1000] = generation;
            fs::write(root.join(name), content).expect("a file");
        }
        fs::write(root.join("sub/extra.o"), "filtered").expect("a file");
        if generation != 7 {
            fs::write(root.join("sub/old"), "old").expect("a file");
            let old = (0..5).map(|number| format!("small{number}")).chain(["large", "sub/large"].map(str::to_owned));
            old.for_each(|name| set_mtime(&root.join(name), 1_500_000_000, 0));
        } else {
            fs::hard_link(root.join("small3"), root.join("sub/too")).expect("a link");
            symlink("../small1", root.join("sub/link")).expect("a link");
        }
    }

    /// All that no session may change: everything but its landing, and haul's own memory in the home directory.
    pub fn outside(&self) -> Snapshot {
        let own = [self.landing(), self.sandbox.home(), self.sandbox.path("shared")];
        let mut found = Snapshot::new();
        look(&self.sandbox.path(&self.name), &own, &mut found);
        look(&self.sandbox.path("outside"), &own, &mut found);
        found
    }

    /// The destination's contents.
    pub fn inside(&self) -> Snapshot {
        let mut found = Snapshot::new();
        look(&self.landing(), &[], &mut found);
        found
    }

    /// Runs it, with one item mutated.
    pub fn run(&self, mutator: Mutator) -> Outcome {
        let state = RelayState::new(mutator);
        let errors = self.sandbox.path(format!("{}.errors", self.name));
        let mut worker = self.far_worker(&errors);
        let place = Sandbox::new();
        let fake = FakeWorker::new(&place);
        let running = self.controller(&fake);
        let Some(link) = fake.accept(TIME_MAX) else {
            panic!("no worker was started\n{}", ProgramRun::of(running).account())
        };
        let mut relay = Relay::new(&state, link, &mut worker);
        // The ends themselves report the result.
        let _ = relay.run();
        relay.link.close();
        let finished = running.finish(TIME_MAX).expect("it can be waited for");
        let run = ProgramRun::new("haul".into(), &finished);
        let worker = worker.end(&self.name);
        let memory = finished.peak_memory_bytes;
        Outcome { run, worker, memory, said: fs::read_to_string(errors).unwrap_or_default(), state }
    }

    fn controller(&self, fake: &FakeWorker) -> Running {
        let command = fake.command(env!("CARGO_BIN_EXE_haul-fake-worker"));
        let landing = match self.server {
            None => self.landing().join("tree"),
            Some(_) => Path::new(&self.name).join("tree"),
        };
        let haul = self.sandbox.haul(self.work.words()).args(["--target-command", &command, "--frame", "256k"]);
        let haul = match self.work {
            Work::Verify => haul,
            Work::Sync => haul.args(STREAM).args(["--checksums", &format!("{}.sums", self.name)]),
            _ => haul.args(STREAM),
        };
        let (source, target) = (self.source().join("."), format!("127.0.0.1:{}", landing.display()));
        haul.args(["--retries", "0"]).arg(source).arg(target).start()
    }

    fn far_worker(&self, errors: &Path) -> WorkerProgramProcess {
        let errors = File::create(errors).expect("a file");
        let Some(server) = self.server else {
            return WorkerProgramProcess::of(self.sandbox.haul(["worker"]), "", errors);
        };
        let (address, proof) = (server.address(), server.line.split('#').nth(1).expect("a secret"));
        let (host, port) = address.rsplit_once(':').expect("a port");
        let dial = self.sandbox.haul(["worker", "--dial", host, port, ""]);
        WorkerProgramProcess::of(dial, &format!("{proof}\n"), errors)
    }

    /// Differences of the destination from an honest end's result; `None` if it is right. Files with final names are
    /// the source's or the old ones.
    pub fn wrong(&self, before: &Snapshot, is_whole: bool) -> Option<String> {
        let mut source = Snapshot::new();
        look(&self.source(), &[], &mut source);
        let (root, from) = (self.landing().join("tree"), self.source());
        let after = self.inside();
        for (path, (_, _, _, _, content)) in &after {
            let Ok(relative) = path.strip_prefix(&root) else { continue };
            let is = |old: Option<&(u32, u64, i64, i64, Vec<u8>)>| old.is_some_and(|old| old.4 == *content);
            let is_partial = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".haul-"));
            let of_source = source.get(&from.join(relative));
            // Extraneous files stay, except in a sync; filtered ones stay even there.
            let is_filtered = self.work == Work::Sync && relative.extension().is_some_and(|end| end == "o");
            let stays = !is_whole || is_filtered || of_source.is_none() && self.work != Work::Sync;
            if !(is_partial || is(of_source) || stays && is(before.get(path))) {
                return Some(format!("{} is wrong", path.display()));
            }
        }
        None
    }
}

/// Kinds of entries and bits that no session makes.
pub fn odd(inside: &Snapshot) -> Option<&PathBuf> {
    let kinds = [rustix::fs::FileType::RegularFile, rustix::fs::FileType::Directory, rustix::fs::FileType::Symlink];
    let is_odd = |(mode, ..): &(u32, u64, i64, i64, Vec<u8>)| {
        mode & 0o7000 != 0 || !kinds.contains(&rustix::fs::FileType::from_raw_mode(*mode))
    };
    inside.iter().find(|(_, look)| is_odd(look)).map(|(path, _)| path)
}

fn look(path: &Path, left_out: &[PathBuf], found: &mut Snapshot) {
    let meta = fs::symlink_metadata(path).expect("it is there");
    let kind = meta.file_type();
    let content = match kind {
        _ if kind.is_file() => fs::read(path).expect("it can be read"),
        _ if kind.is_symlink() => fs::read_link(path).expect("a link").into_os_string().as_bytes().to_vec(),
        _ => Vec::new(),
    };
    found.insert(path.to_owned(), (meta.mode(), meta.len(), meta.mtime(), meta.mtime_nsec(), content));
    if meta.is_dir() {
        let entries = fs::read_dir(path).expect("it can be listed").map(|entry| entry.expect("an entry").path());
        entries.filter(|entry| !left_out.contains(entry)).for_each(|entry| look(&entry, left_out, found));
    }
}
