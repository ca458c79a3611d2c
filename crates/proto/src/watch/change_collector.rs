//! Collects changed paths until they settle. There is no clock here: every call has the time.

use std::collections::BTreeMap;

use super::{ChangedPart, ChangedPath, ChangedPaths};
use crate::limits::CHANGED_PATHS_MAX;

/// Changes are settled after this time without another one.
pub const QUIET_US: u64 = 100_000;
/// Changes that do not settle are due after this time.
pub const SETTLE_MAX_US: u64 = 5_000_000;
/// A file that stays open is due after this time without a write, or after several times that with writes.
pub const WRITING_US: u64 = 2_000_000;
/// Longest time that writes delay a file, in [`WRITING_US`].
const WRITING_MAX: u64 = 5;

/// Changed paths that have not been taken.
#[derive(Debug, Default)]
pub struct ChangeCollector {
    settled: BTreeMap<Vec<u8>, bool>,
    /// Files that are open for writing.
    written: BTreeMap<Vec<u8>, Period>,
    changes: Option<Period>,
    is_doubtful: bool,
}

/// Times of the first and the latest change.
#[derive(Debug, Clone, Copy)]
struct Period {
    first_us: u64,
    latest_us: u64,
}

impl Period {
    fn due_us(self, quiet_us: u64, most_us: u64) -> u64 {
        self.latest_us.saturating_add(quiet_us).min(self.first_us.saturating_add(most_us))
    }

    /// When a file with these writes is due.
    fn written_due_us(self) -> u64 {
        self.due_us(WRITING_US, WRITING_MAX * WRITING_US)
    }
}

fn extend(period: &mut Option<Period>, now_us: u64) {
    *period = Some(Period { first_us: period.map_or(now_us, |known| known.first_us), latest_us: now_us });
}

impl ChangeCollector {
    /// Adds a path that changed, and was not left open.
    pub fn changed(&mut self, now_us: u64, path: Vec<u8>, has_contents: bool) {
        extend(&mut self.changes, now_us);
        self.written.remove(&path);
        if self.is_doubtful {
            return;
        }
        *self.settled.entry(path).or_insert(false) |= has_contents;
        self.limit();
    }

    /// Adds a file that was written and may still be open.
    pub fn written(&mut self, now_us: u64, path: Vec<u8>) {
        if self.is_doubtful {
            return extend(&mut self.changes, now_us);
        }
        let mut period = self.written.get(&path).copied();
        extend(&mut period, now_us);
        self.written.extend(period.map(|period| (path, period)));
        self.limit();
    }

    /// Anything may have changed.
    pub fn doubt(&mut self, now_us: u64) {
        extend(&mut self.changes, now_us);
        self.forget_paths();
    }

    fn forget_paths(&mut self) {
        self.is_doubtful = true;
        self.settled.clear();
        self.written.clear();
    }

    fn limit(&mut self) {
        if self.settled.len() + self.written.len() > CHANGED_PATHS_MAX {
            self.forget_paths();
        }
    }

    /// When something is due, if nothing more happens; `None` without changes.
    pub fn due_us(&self) -> Option<u64> {
        let written = self.written.values().map(|period| period.written_due_us());
        let changes = self.changes.map(|period| period.due_us(QUIET_US, SETTLE_MAX_US));
        written.chain(changes).min()
    }

    /// Takes what is due by now.
    pub fn take(&mut self, now_us: u64) -> Option<ChangedPart> {
        if self.due_us().is_none_or(|due_us| due_us > now_us) {
            return None;
        }
        if std::mem::take(&mut self.is_doubtful) {
            self.changes = None;
            return Some(ChangedPart::Everything);
        }
        let is_due = |period: &Period| period.written_due_us() <= now_us;
        let due: Vec<_> =
            self.written.iter().filter(|(_, period)| is_due(period)).map(|(path, _)| path.clone()).collect();
        for path in due {
            self.written.remove(&path);
            self.settled.entry(path).or_insert(false);
        }
        self.changes = None;
        let paths = std::mem::take(&mut self.settled);
        let paths = paths.into_iter().map(|(path, has_contents)| ChangedPath { path, has_contents });
        Some(ChangedPaths::new(paths).map_or(ChangedPart::Everything, ChangedPart::Paths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(part: Option<ChangedPart>) -> Vec<String> {
        match part {
            Some(ChangedPart::Paths(paths)) => {
                paths.iter().map(|changed| String::from_utf8(changed.path.clone()).unwrap()).collect()
            }
            Some(ChangedPart::Everything) => vec!["everything".to_owned()],
            None => Vec::new(),
        }
    }

    #[test]
    fn a_burst_settles_once() {
        let mut changes = ChangeCollector::default();
        assert_eq!(changes.due_us(), None);
        for at in 0..10 {
            changes.changed(at * QUIET_US / 2, format!("{at}").into(), true);
        }
        let end = 9 * QUIET_US / 2;
        assert_eq!(changes.due_us(), Some(end + QUIET_US));
        assert_eq!(changes.take(end + QUIET_US - 1), None);
        assert_eq!(paths(changes.take(end + QUIET_US)).len(), 10);
        assert_eq!((changes.due_us(), changes.take(u64::MAX)), (None, None));
    }

    #[test]
    fn changes_without_end_are_due_in_time() {
        let mut changes = ChangeCollector::default();
        let mut now = 0;
        while changes.take(now).is_none() {
            changes.changed(now, b"a".to_vec(), false);
            now += QUIET_US / 2;
        }
        assert_eq!(now, SETTLE_MAX_US);
    }

    #[test]
    fn a_file_is_due_once_it_is_closed_or_no_longer_written() {
        let mut changes = ChangeCollector::default();
        changes.written(0, b"log".to_vec());
        changes.changed(0, b"other".to_vec(), false);
        assert_eq!(paths(changes.take(QUIET_US)), ["other"]);
        assert_eq!(changes.due_us(), Some(WRITING_US));
        changes.changed(QUIET_US, b"log".to_vec(), false);
        assert_eq!(paths(changes.take(2 * QUIET_US)), ["log"]);
        for at in 0..WRITING_MAX {
            changes.written(at * WRITING_US, b"log".to_vec());
        }
        assert_eq!(changes.due_us(), Some(WRITING_MAX * WRITING_US));
        assert_eq!(paths(changes.take(WRITING_MAX * WRITING_US)), ["log"]);
    }

    #[test]
    fn doubt_and_too_many_paths_mean_everything() {
        let mut changes = ChangeCollector::default();
        changes.changed(0, b"a".to_vec(), false);
        changes.doubt(0);
        changes.changed(0, b"b".to_vec(), false);
        assert_eq!(paths(changes.take(QUIET_US)), ["everything"]);
        assert_eq!(changes.due_us(), None);
        (0..=CHANGED_PATHS_MAX).for_each(|at| changes.changed(0, at.to_string().into(), false));
        assert_eq!(paths(changes.take(QUIET_US)), ["everything"]);
    }
}
