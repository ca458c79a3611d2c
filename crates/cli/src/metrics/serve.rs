//! What clients of `haul serve` did, as metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_engine::job::account::{WorkAccount, WorkDone, WorkKind};
use haul_engine::serve::ServeEvent;

use super::text::{MetricFamily, MetricsFormat, text};

/// Directories with figures of their own; a file that is changed and reloaded could name ever more.
const DIRECTORIES_MAX: usize = 256;
/// The directory of all further ones. No directory can have this name.
const OTHERS: &str = "(others)";
const KINDS: [WorkKind; 3] = [WorkKind::Sent, WorkKind::Received, WorkKind::Compared];

/// Figures of a server since its start.
#[derive(Debug, Default)]
pub struct ServeMetrics(Mutex<ServeFigures>);

#[derive(Debug, Default)]
struct ServeFigures {
    directories: BTreeMap<String, DirectoryFigures>,
    refused: u64,
    unauthenticated: u64,
}

/// Figures of a directory.
#[derive(Debug, Default)]
struct DirectoryFigures {
    clients: u64,
    /// By [`KINDS`].
    work: [WorkFigures; 3],
    failed: u64,
    complete: u64,
    incomplete: u64,
    time: Duration,
    last_bytes_per_s: Option<f64>,
    last_success_s: Option<f64>,
}

#[derive(Debug, Default)]
struct WorkFigures {
    files: u64,
    bytes: u64,
}

impl ServeMetrics {
    /// Counts an event.
    pub fn count(&self, event: &ServeEvent) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        self.lock().count(event, now_s);
    }

    /// All figures.
    pub fn text(&self, format: MetricsFormat) -> String {
        let families = self.lock().families();
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
            ServeEvent::Began { directory, .. } => self.directory(directory).clients += 1,
            ServeEvent::Ended { directory, account, whole, took, .. } => {
                let figures = self.directory(directory);
                figures.clients = figures.clients.saturating_sub(1);
                if !account.is_idle {
                    figures.add(account, *whole, *took, now_s);
                }
            }
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
        let mut jobs = MetricFamily::counter("haul_serve_jobs", "Jobs that ended, by result");
        for (name, figures) in &self.directories {
            for (result, count) in [("complete", figures.complete), ("incomplete", figures.incomplete)] {
                jobs.push(&[("directory", name), ("result", result)], count as f64);
            }
        }
        let clients = MetricFamily::gauge("haul_serve_clients", "Clients that are connected");
        vec![
            self.each(clients, |figures| figures.clients as f64),
            jobs,
            self.by_kind("haul_serve_bytes", "Bytes of jobs that ended", |work| work.bytes as f64),
            self.by_kind("haul_serve_files", "Files of jobs that ended", |work| work.files as f64),
            counter("haul_serve_failed_entries", "Entries that failed", |figures| figures.failed as f64),
            counter("haul_serve_job_seconds", "Time that jobs took", |figures| figures.time.as_secs_f64()),
            optional("haul_serve_last_job_bytes_per_second", "Mean rate of the last job", |figures| {
                figures.last_bytes_per_s
            }),
            optional("haul_serve_last_success_timestamp_seconds", "When a job last succeeded", |figures| {
                figures.last_success_s
            }),
            MetricFamily::counter("haul_serve_refused", "Clients turned away after authentication")
                .sample(&[], self.refused as f64),
            MetricFamily::counter("haul_serve_unauthenticated", "Connections without valid authentication")
                .sample(&[], self.unauthenticated as f64),
        ]
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
        let Some(WorkDone { what, files, bytes, failed, path: _ }) = &account.did else { return };
        if let Some(at) = KINDS.iter().position(|kind| kind == what) {
            let work = &mut self.work[at];
            work.files = work.files.saturating_add(*files);
            work.bytes = work.bytes.saturating_add(*bytes);
        }
        self.failed = self.failed.saturating_add(*failed);
        self.last_bytes_per_s = (took > Duration::ZERO).then(|| *bytes as f64 / took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(directory: &str, did: Option<WorkDone>, whole: bool) -> ServeEvent {
        let account = WorkAccount { is_idle: did.is_none() && whole, did, why: None };
        let (peer, took) = ("192.0.2.1:9".parse().unwrap(), Duration::from_secs(2));
        ServeEvent::Ended { peer, directory: directory.into(), account, whole, took }
    }

    fn began(directory: &str) -> ServeEvent {
        ServeEvent::Began { peer: "192.0.2.1:9".parse().unwrap(), directory: directory.into(), key: None }
    }

    #[test]
    fn figures_are_kept_by_directory() {
        let did = |what, files, bytes, failed| Some(WorkDone { what, files, bytes, failed, path: "a".into() });
        let mut figures = ServeFigures::default();
        for event in [
            began("in"),
            began("in"),
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
        assert!(older.contains("# TYPE haul_serve_jobs_total counter\n") && !older.contains("EOF"), "{older}");
    }

    #[test]
    fn the_number_of_directories_is_bounded() {
        let mut figures = ServeFigures::default();
        (0..DIRECTORIES_MAX + 50).for_each(|number| figures.count(&began(&format!("d{number}")), 0.0));
        assert_eq!(figures.directories.len(), DIRECTORIES_MAX + 1);
        assert_eq!(figures.directories[OTHERS].clients, 50);
    }
}
