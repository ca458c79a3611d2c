//! Metrics as text: OpenMetrics (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), or Prometheus's older
//! format, with other names for counter families.

use std::fmt::Write as _;

/// Formats of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's text format 0.0.4.
    Prometheus,
}

/// Kinds of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that rises and falls.
    Gauge,
    /// A sum. The name of its samples ends in `_total`.
    Counter,
}

/// Metrics of one name.
#[derive(Debug)]
pub struct MetricFamily {
    /// Its name, that of a counter without `_total`.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its description.
    pub help: &'static str,
    /// Its values, each with its labels.
    pub samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

impl MetricFamily {
    /// A gauge without samples.
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: MetricKind::Gauge, help, samples: Vec::new() }
    }

    /// A counter without samples.
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self { kind: MetricKind::Counter, ..Self::gauge(name, help) }
    }

    /// Adds a sample.
    pub fn sample(mut self, labels: &[(&'static str, &str)], value: f64) -> Self {
        self.push(labels, value);
        self
    }

    /// Adds a sample.
    pub fn push(&mut self, labels: &[(&'static str, &str)], value: f64) {
        self.samples.push((labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(), value));
    }

    fn append(&self, format: MetricsFormat, text: &mut String) {
        let Self { name, kind, help, samples } = self;
        let (kind, total) = match kind {
            MetricKind::Gauge => ("gauge", ""),
            MetricKind::Counter => ("counter", "_total"),
        };
        let family = if format == MetricsFormat::Prometheus { total } else { "" };
        let _ = writeln!(text, "# HELP {name}{family} {help}\n# TYPE {name}{family} {kind}");
        for (labels, value) in samples {
            let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{name}{total}{labels} {value}");
        }
    }
}

/// The text of all families with samples.
pub fn text(families: &[MetricFamily], format: MetricsFormat) -> String {
    let mut text = String::new();
    let families = families.iter().filter(|family| !family.samples.is_empty());
    families.for_each(|family| family.append(format, &mut text));
    if format == MetricsFormat::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn quoted(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
