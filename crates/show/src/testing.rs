//! Samples for tests of displays: events, a summary, and an output that keeps its text.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use haul_base::copy::event::{
    ChangeKind, Confinement, EntryKind, Event, FileReport, ItemChange, ItemReport, NetworkPath, Progress,
    SandboxReport, SkipReport, SlowFile, SourceChange, SyncCounters, TransportPath,
};
use haul_base::copy::spec::Cipher;
use haul_base::copy::summary::{
    ConnectionSummary, CopyTimes, Diagnosis, EndSummary, IntegritySummary, PlannedTotals, Summary, TransferTotals,
};
use haul_proto::wire::counters::{Counters, PathFigures};

/// A path with addresses only.
pub fn bare(from: &str, to: &str) -> NetworkPath {
    NetworkPath { from: from.into(), to: to.into(), ..NetworkPath::default() }
}

fn moved() -> Event {
    let (path, other) = (bare("10.2.0.1:1", "10.2.0.2:2"), bare("10.1.0.1:3", "10.1.0.2:4"));
    let transport = TransportPath::Tcp { path, others: vec![other], instead_of: None };
    Event::PathChanged { transport, because: Some("it carries 944 Mbit/s, the previous one 95".into()) }
}

/// One event of each kind.
pub fn every_event() -> Vec<Event> {
    let progress = Progress {
        files_found: 12_408,
        bytes_found: 333_100_000_000,
        walk_complete: true,
        files_settled: 7_001,
        bytes_written: 203_300_000_000,
        bytes_skipped: 100_000_000,
        bytes_stored: 0,
        bytes_compared: 0,
        streams: 8,
        limited_by: None,
        ..Progress::default()
    };
    let transport = example().connection.transport;
    vec![
        Event::Deployed { host: "db1".into(), path: "/home/me/.cache/haul/0.1.0-ab/haul".into() },
        Event::Connected { transport, streams: 8, cipher: Cipher::Aes256Gcm },
        moved(),
        Event::Progress(Box::new(progress)),
        Event::FileDone(FileReport { path: b"run7/a".to_vec(), size: 5, copied: true, digest: Some([0xab; 32]) }),
        Event::FileDone(FileReport { path: b"run7/\xff".to_vec(), size: 0, copied: false, digest: None }),
        Event::Skipped(SkipReport { path: b"run7/pipe".to_vec(), reason: "is a FIFO".into() }),
        Event::Item(ItemReport {
            path: b"run7/\xfe".to_vec(),
            item: ItemChange { what: EntryKind::Directory, change: ChangeKind::Removed },
            size: None,
            modified: None,
            first_name: None,
        }),
        Event::SourceChanged { path: b"run7/log".to_vec(), change: SourceChange::Grew },
        Event::FileFailed { path: b"run7/b".to_vec(), host: "db1".into(), message: "no space left\nfree some".into() },
        Event::RateLimit { bytes_per_s: Some(52_428_800) },
        Event::Pause { is_paused: true },
        Event::Streams { wanted: 12 },
        Event::Restarted {
            reason: "lost the connection to db1: no message for 15 s".into(),
            pause: Duration::from_secs(2),
            attempt: 2,
            attempts: Some(10),
            left: None,
        },
        Event::Warning("a word".into()),
    ]
}

fn transport() -> TransportPath {
    let path = bare("10.10.1.155:40312", "10.10.1.202:35011");
    let path = NetworkPath { interface: Some("enp5s0f1".into()), mbit_per_s: Some(10_000), ..path };
    TransportPath::Tcp { path, others: Vec::new(), instead_of: None }
}

/// The run in the documentation.
pub fn example() -> Summary {
    Summary {
        files: TransferTotals {
            copied: 12_408,
            skipped: 0,
            failed: 0,
            vanished: 0,
            left_out: 0,
            bytes: 333_149_000_000,
            bytes_skipped: 0,
            cloned_bytes: 0,
        },
        left_out: Vec::new(),
        times: CopyTimes { elapsed: Duration::from_secs(284), paused: Duration::ZERO, restarts: 0 },
        connection: ConnectionSummary {
            transport: transport(),
            streams: 8,
            cipher: Some(Cipher::Aes256Gcm),
            path: PathFigures::default(),
            rate_limit_bytes_per_s: None,
        },
        integrity: IntegritySummary { blake3: true, durable: true, read_back: None, comparison: None },
        diagnosis: Diagnosis {
            verdict: None,
            parts: Vec::new(),
            advice: Vec::new(),
            slowest: vec![SlowFile { path: b"run7/big.db".to_vec(), size: 4_290_000_000, took_us: 3_700_000 }],
        },
        counters: Counters { directories: 341, symlinks: 1, bytes_on_wire: 333_200_000_000, ..Counters::default() },
        compression: None,
        delta: None,
        sync: SyncCounters::default(),
        is_dry: false,
        planned: PlannedTotals::default(),
        is_timed: false,
        is_resumable: false,
        ends: [(12_300, 4_100, 41_000_000), (14_100, 6_200, 57_500_000)].map(|(cpu_ms, system_ms, peak_bytes)| {
            EndSummary {
                cpu: Duration::from_millis(cpu_ms),
                system: Duration::from_millis(system_ms),
                peak_bytes,
                sandbox: Some(SandboxReport { confinement: Confinement::Full, reason: String::new() }),
                ..EndSummary::default()
            }
        }),
    }
}

/// Keeps the output, for tests.
#[derive(Clone, Default)]
pub struct Paper(Rc<RefCell<Vec<u8>>>);

impl Paper {
    /// What was written so far.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
