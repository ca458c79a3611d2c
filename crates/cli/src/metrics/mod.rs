//! `--metrics FILE`: the result of a copy as OpenMetrics text, for node_exporter's textfile collector. `serve` and
//! `http` have the metrics of a server.

pub mod http;
pub mod serve;
mod text;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use haul_base::copy::error::Outcome;
use haul_base::copy::location::Location;
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::pending::{Pending, ReplaceableFile};
use haul_show::report::named;
use haul_show::units::bytes_per_s;

use self::text::{MetricFamily, MetricsFormat, text};

/// The metric that a failed copy keeps from an earlier run: the time of the last success.
const LAST_SUCCESS: &str = "haul_copy_last_success_timestamp_seconds";
/// Most bytes read of an earlier file.
const EARLIER_MAX: u64 = 64 << 10;

/// A file for the metrics of a copy.
pub struct CopyMetrics {
    path: PathBuf,
    /// The target, as typed, without a secret.
    target: String,
}

impl CopyMetrics {
    /// Checks that `path` is absent, or a file of metrics that haul wrote.
    pub fn create(path: &Path, target: &Location) -> io::Result<Self> {
        ReplaceableFile::Metrics.check(path)?;
        Ok(Self { path: path.to_owned(), target: named(target) })
    }

    /// Replaces the file. The message of an error names it.
    pub fn write(&self, outcome: &Outcome) -> anyhow::Result<()> {
        let earlier = last_success(&self.path);
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let written = Pending::create(&self.path, ReplaceableFile::Metrics).and_then(|pending| {
            pending.writer()?.write_all(self.text(outcome, now_s, earlier).as_bytes())?;
            pending.publish()
        });
        written
            .map_err(|error| anyhow::anyhow!("--metrics {}: {error}", escape(self.path.as_os_str().as_encoded_bytes())))
    }

    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    fn text(&self, outcome: &Outcome, now_s: f64, earlier_success_s: Option<f64>) -> String {
        let status = Exit::of(outcome).number();
        let target: &[_] = &[("target", self.target.as_str())];
        let metric = |name, help, value| MetricFamily::gauge(name, help).sample(target, value);
        let mut metrics = vec![
            metric("haul_copy_exit_status", "Exit status of the last copy", f64::from(status)),
            metric("haul_copy_end_timestamp_seconds", "When the last copy ended", now_s),
        ];
        if let Some(success_s) = if status == 0 { Some(now_s) } else { earlier_success_s } {
            metrics.push(metric(LAST_SUCCESS, "When a copy last succeeded", success_s));
        }
        if let Ok(summary) = outcome {
            let seconds = summary.times.elapsed.as_secs_f64();
            let rate = bytes_per_s(summary.files.bytes, summary.times.elapsed);
            metrics.extend([
                metric("haul_copy_bytes", "Bytes that the last copy copied", summary.files.bytes as f64),
                metric("haul_copy_skipped_bytes", "Bytes that were up to date", summary.files.bytes_skipped as f64),
                metric("haul_copy_files", "Files that the last copy copied", summary.files.copied as f64),
                metric("haul_copy_skipped_files", "Files that were up to date", summary.files.skipped as f64),
                metric("haul_copy_failed_entries", "Entries that failed", summary.files.failed as f64),
                metric("haul_copy_duration_seconds", "How long the last copy took", seconds),
                metric("haul_copy_bytes_per_second", "Mean rate of the last copy", rate),
                metric(
                    "haul_copy_reconnects",
                    "Connections that were lost and made again",
                    summary.times.restarts.into(),
                ),
            ]);
            metrics.extend(summary.diagnosis.verdict.as_ref().map(|verdict| {
                let help = "What limited the last copy (docs/DIAGNOSIS.md)";
                let labels = [target[0], ("limit", verdict.limit.id())];
                MetricFamily::gauge("haul_copy_bottleneck", help).sample(&labels, 1.0)
            }));
        }
        text(&metrics, MetricsFormat::OpenMetrics)
    }
}

/// The last success in an earlier file, in seconds since the epoch.
fn last_success(path: &Path) -> Option<f64> {
    let is_small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= EARLIER_MAX);
    let text = is_small.then(|| fs::read_to_string(path).ok()).flatten()?;
    let line = text.lines().find(|line| line.starts_with(LAST_SUCCESS))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use haul_base::copy::error::Error;
    use haul_base::copy::location::Host;
    use haul_base::copy::summary::{CopyTimes, Summary, TransferTotals};

    use super::*;

    fn nas() -> Location {
        Location { host: Host::Remote { user: Some("anna".into()), name: "nas".into() }, path: "/t".into() }
    }

    fn summary(failed: u64) -> Outcome {
        let elapsed = Duration::from_secs(4);
        Ok(Summary {
            files: TransferTotals { bytes: 1000, copied: 3, failed, ..TransferTotals::default() },
            times: CopyTimes { restarts: 1, elapsed, ..CopyTimes::default() },
            ..Summary::default()
        })
    }

    #[test]
    fn a_copy_has_a_line_for_each_figure() {
        let metrics = CopyMetrics { path: "m".into(), target: "db1:/a \"b\"".into() };
        insta::assert_snapshot!(metrics.text(&summary(0), 1_700_000_000.5, None), @r#"
        # HELP haul_copy_exit_status Exit status of the last copy
        # TYPE haul_copy_exit_status gauge
        haul_copy_exit_status{target="db1:/a \"b\""} 0
        # HELP haul_copy_end_timestamp_seconds When the last copy ended
        # TYPE haul_copy_end_timestamp_seconds gauge
        haul_copy_end_timestamp_seconds{target="db1:/a \"b\""} 1700000000.5
        # HELP haul_copy_last_success_timestamp_seconds When a copy last succeeded
        # TYPE haul_copy_last_success_timestamp_seconds gauge
        haul_copy_last_success_timestamp_seconds{target="db1:/a \"b\""} 1700000000.5
        # HELP haul_copy_bytes Bytes that the last copy copied
        # TYPE haul_copy_bytes gauge
        haul_copy_bytes{target="db1:/a \"b\""} 1000
        # HELP haul_copy_skipped_bytes Bytes that were up to date
        # TYPE haul_copy_skipped_bytes gauge
        haul_copy_skipped_bytes{target="db1:/a \"b\""} 0
        # HELP haul_copy_files Files that the last copy copied
        # TYPE haul_copy_files gauge
        haul_copy_files{target="db1:/a \"b\""} 3
        # HELP haul_copy_skipped_files Files that were up to date
        # TYPE haul_copy_skipped_files gauge
        haul_copy_skipped_files{target="db1:/a \"b\""} 0
        # HELP haul_copy_failed_entries Entries that failed
        # TYPE haul_copy_failed_entries gauge
        haul_copy_failed_entries{target="db1:/a \"b\""} 0
        # HELP haul_copy_duration_seconds How long the last copy took
        # TYPE haul_copy_duration_seconds gauge
        haul_copy_duration_seconds{target="db1:/a \"b\""} 4
        # HELP haul_copy_bytes_per_second Mean rate of the last copy
        # TYPE haul_copy_bytes_per_second gauge
        haul_copy_bytes_per_second{target="db1:/a \"b\""} 250
        # HELP haul_copy_reconnects Connections that were lost and made again
        # TYPE haul_copy_reconnects gauge
        haul_copy_reconnects{target="db1:/a \"b\""} 1
        # EOF
        "#);
    }

    #[test]
    fn a_failure_keeps_the_time_of_the_last_success() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("haul.prom");
        let metrics = CopyMetrics::create(&path, &nas()).unwrap();
        metrics.write(&summary(0)).unwrap();
        let success = last_success(&path).unwrap();
        metrics.write(&summary(2)).unwrap();
        assert_eq!(last_success(&path), Some(success));
        metrics.write(&Err(Error::Connect("gone".into()))).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("haul_copy_exit_status{target=\"anna@nas:/t\"} 3\n") && !text.contains("haul_copy_bytes"),
            "{text}"
        );
        assert_eq!(last_success(&path), Some(success));
    }

    #[test]
    fn a_file_of_others_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes");
        fs::write(&path, "important\n").unwrap();
        assert!(CopyMetrics::create(&path, &nas()).is_err());
    }
}
