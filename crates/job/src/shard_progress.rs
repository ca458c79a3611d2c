//! The progress of a shard at the target, recorded with each heartbeat, so that it survives a killed run.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// Progress at the target, of all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardProgress {
    /// Completed files: copied, present before, or failed.
    pub files: u64,
    /// Bytes written or present before.
    pub bytes: u64,
    /// Data that all runs wrote, or compared.
    pub moved: u64,
}

impl ShardProgress {
    /// The larger of each figure.
    pub fn max(self, other: Self) -> Self {
        Self {
            files: self.files.max(other.files),
            bytes: self.bytes.max(other.bytes),
            moved: self.moved.max(other.moved),
        }
    }

    /// Whether one of the figures is larger than in `earlier`.
    pub fn exceeds(self, earlier: Self) -> bool {
        self.files > earlier.files || self.bytes > earlier.bytes
    }

    pub(crate) fn json(self) -> Value {
        json!({ "files": self.files, "bytes": self.bytes, "moved": self.moved })
    }

    /// A missing figure is 0.
    pub(crate) fn parse(value: &Value) -> Self {
        let [files, bytes, moved] = ["files", "bytes", "moved"].map(|name| value[name].as_u64().unwrap_or_default());
        Self { files, bytes, moved }
    }
}

/// The progress of a run, raised by the copy and written by the heartbeat.
#[derive(Debug, Clone, Default)]
pub struct LiveProgress(Arc<Mutex<ShardProgress>>);

impl LiveProgress {
    /// Starts at the progress of earlier runs.
    pub(crate) fn new(earlier: ShardProgress) -> Self {
        Self(Arc::new(Mutex::new(earlier)))
    }

    /// Raises it to `seen`, never lowers it: a restarted connection counts from 0.
    pub fn raise(&self, seen: ShardProgress) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *progress = progress.max(seen);
    }

    /// The largest figures so far.
    pub fn get(&self) -> ShardProgress {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_only_grows() {
        let live = LiveProgress::new(ShardProgress { files: 3, bytes: 10, moved: 9 });
        live.raise(ShardProgress { files: 1, bytes: 20, moved: 4 });
        assert_eq!(live.get(), ShardProgress { files: 3, bytes: 20, moved: 9 });
        assert_eq!(ShardProgress::parse(&live.get().json()), live.get());
        assert_eq!(ShardProgress::parse(&Value::Null), ShardProgress::default());
        assert!(live.get().exceeds(ShardProgress { files: 9, bytes: 19, moved: 0 }) && !live.get().exceeds(live.get()));
    }
}
