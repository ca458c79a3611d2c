//! Metrics of the clients of `haul serve`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_base::copy::account::{WorkAccount, WorkKind};
use haul_base::copy::work_progress::{WorkProgress, WorkSnapshot};
use haul_serve::ServeEvent;

use super::text::{MetricFamily, MetricsFormat, text};

/// Most directories with separate figures: reloads of a changed file could add any number.
const DIRECTORIES_MAX: usize = 256;
/// The name for all further directories. No directory can have it.
const OTHERS: &str = "(others)";
const KINDS: [WorkKind; 3] = [WorkKind::Sent, WorkKind::Received, WorkKind::Compared];

/// Figures of a server since its start.
#[derive(Debug, Default)]
pub struct ServeMetrics(Mutex<ServeFigures>);

#[derive(Debug, Default)]
struct ServeFigures {
    directories: BTreeMap<String, DirectoryFigures>,
    running: Vec<RunningWork>,
    refused: u64,
    unauthenticated: u64,
}

/// A client's copy, and the part counted in its directory's figures.
#[derive(Debug)]
struct RunningWork {
    peer: SocketAddr,
    directory: String,
    progress: Option<Arc<WorkProgress>>,
    counted: WorkFigures,
    bottleneck: Option<&'static str>,
}

/// Figures of a directory.
#[derive(Debug, Default)]
struct DirectoryFigures {
    clients: u64,
    /// By [`KINDS`].
    work: [WorkFigures; 3],
    complete: u64,
    incomplete: u64,
    time: Duration,
    last_bytes_per_s: Option<f64>,
    last_success_s: Option<f64>,
    last_bottleneck: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, Default)]
struct WorkFigures {
    files: u64,
    bytes: u64,
    failed: u64,
}

impl ServeMetrics {
    /// Counts an event.
    pub fn count(&self, event: &ServeEvent) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        self.lock().count(event, now_s);
    }

    /// All figures.
    pub fn text(&self, format: MetricsFormat) -> String {
        let mut figures = self.lock();
        figures.count_running();
        let families = figures.families();
        text(&families, format)
    }

    fn lock(&self) -> MutexGuard<'_, ServeFigures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServeFigures {
    fn count(&mut self, event: &ServeEvent, now_s: f64) {
        match event {
            ServeEvent::Stranger { others, .. } => self.unauthenticated += 1 + others,
            ServeEvent::Refused { .. } => self.refused += 1,
            ServeEvent::Began { peer, directory, progress, .. } => {
                self.directory(directory).clients += 1;
                self.running.push(RunningWork::new(*peer, directory, progress.clone()));
            }
            ServeEvent::Ended { peer, directory, account, whole, took } => {
                let running = self.running.iter().position(|running| running.peer == *peer);
                if let Some(mut running) = running.map(|at| self.running.swap_remove(at)) {
                    running.count(self.directory(directory));
                    running.count_end(account, self.directory(directory));
                }
                let figures = self.directory(directory);
                figures.clients = figures.clients.saturating_sub(1);
                if !account.is_idle {
                    figures.add(account, *whole, *took, now_s);
                }
            }
        }
    }

    /// Adds the progress of running copies since the last call.
    fn count_running(&mut self) {
        for mut running in std::mem::take(&mut self.running) {
            let directory = running.directory.clone();
            running.count(self.directory(&directory));
            self.running.push(running);
        }
    }

    fn directory(&mut self, name: &str) -> &mut DirectoryFigures {
        let has_room = self.directories.contains_key(name) || self.directories.len() < DIRECTORIES_MAX;
        self.directories.entry(if has_room { name } else { OTHERS }.to_owned()).or_default()
    }

    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    fn families(&self) -> Vec<MetricFamily> {
        let counter = |name, help, of: fn(&DirectoryFigures) -> f64| self.each(MetricFamily::counter(name, help), of);
        let optional = |name, help, of: fn(&DirectoryFigures) -> Option<f64>| {
            let mut family = MetricFamily::gauge(name, help);
            let known = self.directories.iter().filter_map(|(name, figures)| Some((name, of(figures)?)));
            known.for_each(|(name, value)| family.push(&[("directory", name)], value));
            family
        };
        let mut copies = MetricFamily::counter("haul_serve_copies", "Jobs that ended, by result");
        for (name, figures) in &self.directories {
            for (result, count) in [("complete", figures.complete), ("incomplete", figures.incomplete)] {
                copies.push(&[("directory", name), ("result", result)], count as f64);
            }
        }
        let clients = MetricFamily::gauge("haul_serve_clients", "Clients that are connected");
        vec![
            self.each(clients, |figures| figures.clients as f64),
            copies,
            self.by_kind("haul_serve_bytes", "Bytes of all copies, also of those that run", |work| work.bytes as f64),
            self.by_kind("haul_serve_files", "Files of all copies, also of those that run", |work| work.files as f64),
            counter("haul_serve_failed_entries", "Entries that failed", |figures| {
                figures.work.iter().map(|work| work.failed).fold(0, u64::saturating_add) as f64
            }),
            counter("haul_serve_copy_seconds", "Time that copies took", |figures| figures.time.as_secs_f64()),
            optional("haul_serve_last_copy_bytes_per_second", "Mean rate of the last copy", |figures| {
                figures.last_bytes_per_s
            }),
            optional("haul_serve_last_success_timestamp_seconds", "When a copy last succeeded", |figures| {
                figures.last_success_s
            }),
            self.bottlenecks(),
            MetricFamily::counter("haul_serve_refused", "Clients turned away after authentication")
                .sample(&[], self.refused as f64),
            MetricFamily::counter("haul_serve_unauthenticated", "Connections without valid authentication")
                .sample(&[], self.unauthenticated as f64),
        ]
    }

    fn bottlenecks(&self) -> MetricFamily {
        let help = "What limited the last copy at this end; none: the client or the network";
        let mut family = MetricFamily::gauge("haul_serve_last_job_bottleneck", help);
        let known = self.directories.iter().filter_map(|(name, figures)| Some((name, figures.last_bottleneck?)));
        known.for_each(|(name, limit)| family.push(&[("directory", name), ("limit", limit)], 1.0));
        family
    }

    fn each(&self, mut family: MetricFamily, of: fn(&DirectoryFigures) -> f64) -> MetricFamily {
        self.directories.iter().for_each(|(name, figures)| family.push(&[("directory", name)], of(figures)));
        family
    }

    fn by_kind(&self, name: &'static str, help: &'static str, of: fn(&WorkFigures) -> f64) -> MetricFamily {
        let mut family = MetricFamily::counter(name, help);
        for (directory, figures) in &self.directories {
            for (kind, work) in KINDS.iter().zip(&figures.work) {
                family.push(&[("directory", directory), ("direction", kind.word())], of(work));
            }
        }
        family
    }
}

impl DirectoryFigures {
    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    fn add(&mut self, account: &WorkAccount, is_complete: bool, took: Duration, now_s: f64) {
        self.time = self.time.saturating_add(took);
        match is_complete {
            true => (self.complete, self.last_success_s) = (self.complete + 1, Some(now_s)),
            false => self.incomplete += 1,
        }
        if let Some(done) = &account.did {
            self.last_bytes_per_s = (took > Duration::ZERO).then(|| done.bytes as f64 / took.as_secs_f64());
        }
    }

    /// Adds the excess over `counted` to the counters, so that they never decrease.
    fn raise(&mut self, what: WorkKind, counted: &mut WorkFigures, done: WorkFigures) {
        let Some(at) = KINDS.iter().position(|kind| *kind == what) else { return };
        let work = &mut self.work[at];
        for (total, counted, done) in [
            (&mut work.files, &mut counted.files, done.files),
            (&mut work.bytes, &mut counted.bytes, done.bytes),
            (&mut work.failed, &mut counted.failed, done.failed),
        ] {
            *total = total.saturating_add(done.saturating_sub(*counted));
            *counted = done.max(*counted);
        }
    }
}

impl RunningWork {
    fn new(peer: SocketAddr, directory: &str, progress: Option<Arc<WorkProgress>>) -> Self {
        let directory = directory.to_owned();
        Self { peer, directory, progress, counted: WorkFigures::default(), bottleneck: None }
    }

    fn count(&mut self, directory: &mut DirectoryFigures) {
        let snapshot = self.progress.as_ref().and_then(|progress| progress.snapshot());
        let Some(WorkSnapshot { what, files, bytes, failed, bottleneck }) = snapshot else { return };
        directory.raise(what, &mut self.counted, WorkFigures { files, bytes, failed });
        self.bottleneck = Some(bottleneck.id());
    }

    /// Counts the rest of a copy, from the worker's totals.
    fn count_end(&mut self, account: &WorkAccount, directory: &mut DirectoryFigures) {
        if let Some(done) = &account.did {
            let all = WorkFigures { files: done.files, bytes: done.bytes, failed: done.failed };
            directory.raise(done.what, &mut self.counted, all);
        }
        if !account.is_idle {
            directory.last_bottleneck = self.bottleneck;
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::account::WorkDone;
    use haul_proto::diagnose::Bottleneck;

    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn ended(directory: &str, did: Option<WorkDone>, whole: bool) -> ServeEvent {
        let account = WorkAccount { is_idle: did.is_none() && whole, did, why: None };
        let took = Duration::from_secs(2);
        ServeEvent::Ended { peer: peer(9), directory: directory.into(), account, whole, took }
    }

    fn began(directory: &str) -> ServeEvent {
        ServeEvent::Began { peer: peer(9), directory: directory.into(), key: None, progress: None }
    }

    fn received(files: u64, bytes: u64) -> WorkDone {
        WorkDone { what: WorkKind::Received, files, bytes, failed: 0, path: "a".into() }
    }

    #[test]
    fn running_jobs_are_counted_and_counters_never_decrease() {
        let mut figures = ServeFigures::default();
        let copies = [1, 2].map(|port| {
            let progress = Arc::new(WorkProgress::new().unwrap());
            let (directory, progress_of) = (String::from("in"), Some(Arc::clone(&progress)));
            figures.count(&ServeEvent::Began { peer: peer(port), directory, key: None, progress: progress_of }, 0.0);
            progress
        });
        let mut totals = Vec::new();
        let mut sample = |figures: &mut ServeFigures| {
            figures.count_running();
            totals.push(figures.directories["in"].work[1].bytes);
        };
        sample(&mut figures);
        copies[0].record(&received(0, 1000), Bottleneck::None).unwrap();
        sample(&mut figures);
        copies[1].record(&received(1, 70), Bottleneck::TargetDisk).unwrap();
        sample(&mut figures);
        // What a worker that is not to be trusted might write.
        copies[0].record(&received(0, 10), Bottleneck::None).unwrap();
        sample(&mut figures);
        let account = WorkAccount { did: Some(received(3, 90)), ..WorkAccount::default() };
        let (directory, took) = (String::from("in"), Duration::from_secs(1));
        figures.count(&ServeEvent::Ended { peer: peer(2), directory, account, whole: true, took }, 0.0);
        sample(&mut figures);
        // A worker that was killed accounts for nothing.
        let (account, directory) = (WorkAccount::default(), String::from("in"));
        figures.count(&ServeEvent::Ended { peer: peer(1), directory, account, whole: false, took }, 0.0);
        sample(&mut figures);
        assert_eq!(totals, [0, 1000, 1070, 1070, 1090, 1090]);
        assert_eq!((figures.directories["in"].work[1].files, figures.running.len()), (3, 0));
    }

    #[test]
    fn figures_are_kept_by_directory() {
        let did = |what, files, bytes, failed| Some(WorkDone { what, files, bytes, failed, path: "a".into() });
        let working = |limit| {
            let progress = Arc::new(WorkProgress::new().unwrap());
            progress.record(&received(1, 1), limit).unwrap();
            ServeEvent::Began { peer: peer(9), directory: "in".into(), key: None, progress: Some(progress) }
        };
        let mut figures = ServeFigures::default();
        for event in [
            ServeEvent::Began { peer: peer(8), directory: "in".into(), key: None, progress: None },
            working(Bottleneck::TargetDisk),
            ended("in", did(WorkKind::Received, 3, 1000, 0), true),
            began("a\"b"),
            ended("a\"b", did(WorkKind::Sent, 1, 50, 2), false),
            began("in"),
            ended("in", None, true),
            ServeEvent::Stranger { peer: "192.0.2.1:9".parse().unwrap(), why: String::new(), others: 4 },
        ] {
            figures.count(&event, 1_700_000_000.5);
        }
        insta::assert_snapshot!(text(&figures.families(), MetricsFormat::OpenMetrics));
        let older = text(&figures.families(), MetricsFormat::Prometheus);
        assert!(older.contains("# TYPE haul_serve_copies_total counter\n") && !older.contains("EOF"), "{older}");
    }

    #[test]
    fn the_number_of_directories_is_bounded() {
        let mut figures = ServeFigures::default();
        (0..DIRECTORIES_MAX + 50).for_each(|number| figures.count(&began(&format!("d{number}")), 0.0));
        assert_eq!(figures.directories.len(), DIRECTORIES_MAX + 1);
        assert_eq!(figures.directories[OTHERS].clients, 50);
    }
}
