//! The estimated time of a copy, by the last `haul probe --save` for its host.

use std::time::Duration;

use haul_inspect::survey::Survey;
use haul_proto::path::escape;
use haul_show::units::{duration, rate, size};
use serde::Serialize;

use crate::probe::figures::ProbeFigures;

/// An estimate.
#[derive(Debug, Clone, PartialEq)]
pub enum Outlook {
    /// No host was named.
    NoHost,
    /// The host has no saved measurements.
    Unmeasured(String),
    /// The host has saved measurements.
    Measured(CopyEstimate),
}

/// An estimated time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CopyEstimate {
    /// Bytes to send.
    pub bytes: u64,
    /// The saved rate.
    pub bytes_per_s: f64,
    /// The host.
    pub host: String,
    /// The time of the measurement.
    pub measured: String,
    /// The estimated time.
    pub seconds: f64,
    /// The saved bottleneck, in words.
    #[serde(skip)]
    pub limit: String,
}

/// Longest time shown as a number.
const TIME_MAX_S: f64 = 1e9;

impl Outlook {
    /// The estimate for a copy to `host`.
    pub fn new(survey: &Survey, host: Option<String>, figures: Option<ProbeFigures>) -> Self {
        let Some(host) = host else { return Self::NoHost };
        let Some(figures) = figures else { return Self::Unmeasured(host) };
        let (bytes, ProbeFigures { bytes_per_s, limit, when: measured }) = (bytes(survey), figures);
        let time = Duration::from_secs_f64((bytes as f64 / bytes_per_s.max(1.0)).min(TIME_MAX_S));
        Self::Measured(CopyEstimate { bytes, bytes_per_s, host, measured, seconds: time.as_secs_f64(), limit })
    }

    /// The estimate, if there is one.
    pub fn estimate(&self) -> Option<&CopyEstimate> {
        if let Self::Measured(estimate) = self { Some(estimate) } else { None }
    }

    /// The estimate as a line of text.
    pub fn words(&self) -> String {
        match self {
            Self::NoHost => {
                "unknown: measure the path with haul probe --save HOST:PATH, then add --to HOST:PATH".to_owned()
            }
            Self::Unmeasured(host) => {
                let host = escape(host.as_bytes());
                format!("unknown: measure the path with haul probe --save {host}:PATH")
            }
            Self::Measured(CopyEstimate { bytes, bytes_per_s, host, measured, seconds, limit }) => {
                let [host, limit, when] = [host, limit, measured].map(|text| escape(text.as_bytes()));
                format!(
                    "{} for {} to {host}, at the probed {} ({when}; limited by {limit}); small files take longer",
                    duration(Duration::from_secs_f64(*seconds)),
                    size(*bytes),
                    rate(*bytes_per_s)
                )
            }
        }
    }
}

/// Data to be sent: all, or what the target lacks.
fn bytes(survey: &Survey) -> u64 {
    survey.there.map_or(survey.totals.data_bytes, |there| there.send_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_bytes_by_the_saved_rate() {
        let mut survey = Survey::default();
        survey.totals.data_bytes = 30_000_000_000;
        let figures = ProbeFigures { bytes_per_s: 1.5e9, limit: "target disk".into(), when: "2026-11-22 10:00".into() };
        let outlook = Outlook::new(&survey, Some("db1".into()), Some(figures));
        insta::assert_snapshot!(outlook.words(), @"20.0 s for 30.0 GB to db1, at the probed 1.50 GB/s (2026-11-22 10:00; limited by target disk); small files take longer");
        let none = Outlook::new(&survey, Some("db1".into()), None).words();
        assert!(none.contains("haul probe --save db1:PATH"), "{none}");
        assert_eq!(Outlook::new(&survey, None, None), Outlook::NoHost);
    }

    #[test]
    fn a_rate_without_sense_does_no_harm() {
        let mut survey = Survey::default();
        survey.totals.data_bytes = u64::MAX;
        for bytes_per_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let figures = ProbeFigures { bytes_per_s, limit: String::new(), when: String::new() };
            assert!(matches!(Outlook::new(&survey, Some("a".into()), Some(figures)), Outlook::Measured(_)));
        }
    }
}
