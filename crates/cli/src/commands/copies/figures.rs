//! Progress of a detached copy, as its record has it.

use std::time::Duration;

use haul_show::units;
use serde_json::{Value, json};

/// Progress of a copy, for other processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CopyFigures {
    /// Whether the streams are up.
    pub is_connected: bool,
    /// Completed files: copied, present before, or failed.
    pub files: u64,
    /// Files found so far.
    pub files_found: u64,
    /// Bytes of completed frames and files.
    pub bytes: u64,
    /// Bytes found so far.
    pub bytes_found: u64,
    /// Whether the figures of found files are totals.
    pub walk_complete: bool,
    /// The present rate; 0 while unknown.
    pub bytes_per_s: f64,
}

impl CopyFigures {
    /// The figures of several copies together.
    pub fn sum(copies: &[Self]) -> Self {
        let of = |number: fn(&Self) -> u64| copies.iter().map(number).sum();
        Self {
            is_connected: copies.iter().any(|copy| copy.is_connected),
            files: of(|copy| copy.files),
            files_found: of(|copy| copy.files_found),
            bytes: of(|copy| copy.bytes),
            bytes_found: of(|copy| copy.bytes_found),
            walk_complete: copies.iter().all(|copy| copy.walk_complete),
            bytes_per_s: copies.iter().map(|copy| copy.bytes_per_s).sum(),
        }
    }

    /// As a JSON object.
    pub fn json(self) -> Value {
        json!({
            "connected": self.is_connected,
            "files": self.files,
            "files_found": self.files_found,
            "bytes": self.bytes,
            "bytes_found": self.bytes_found,
            "walk_complete": self.walk_complete,
            "bytes_per_s": self.bytes_per_s,
        })
    }

    /// A missing figure is 0.
    pub fn parse(value: &Value) -> Self {
        let number = |name: &str| value[name].as_u64().unwrap_or_default();
        let is = |name: &str| value[name].as_bool().unwrap_or_default();
        Self {
            is_connected: is("connected"),
            files: number("files"),
            files_found: number("files_found"),
            bytes: number("bytes"),
            bytes_found: number("bytes_found"),
            walk_complete: is("walk_complete"),
            bytes_per_s: value["bytes_per_s"].as_f64().unwrap_or_default(),
        }
    }

    /// `38 % of 12.0 GB, 1.02 GB/s, 7 s left`
    pub fn shown(self) -> String {
        if !self.is_connected {
            return "connecting".to_owned();
        }
        let done = match self.walk_complete && self.bytes_found > 0 {
            true => format!("{} % of {}", units::percent(self.bytes, self.bytes_found), units::size(self.bytes_found)),
            false => format!("{}, {}", units::files(self.files), units::size(self.bytes)),
        };
        let left = self.bytes_found.saturating_sub(self.bytes);
        if self.bytes_per_s < 1.0 {
            return done;
        }
        let rate = units::rate(self.bytes_per_s);
        #[allow(clippy::cast_precision_loss, reason = "a time left is shown with three digits")]
        let ahead = Duration::try_from_secs_f64(left as f64 / self.bytes_per_s).ok();
        match ahead.filter(|_| self.walk_complete && left > 0) {
            Some(ahead) => format!("{done}, {rate}, {} left", units::time_ahead(ahead)),
            None => format!("{done}, {rate}"),
        }
    }
}
