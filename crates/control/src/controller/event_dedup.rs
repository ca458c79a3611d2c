//! Suppresses events of single files that an earlier attempt already reported.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use haul_base::copy::event::{Event, Observer};
use haul_proto::wire::report::{FileReport, ItemReport, SkipReport};

/// Most remembered events, at 8 bytes each. A copy with more files may report some twice.
const REMEMBERED_MAX: usize = 1 << 20;

/// Forwards to an observer the events that no earlier attempt reported.
pub struct EventDedup<'a> {
    observer: &'a mut dyn Observer,
    remembered: HashSet<u64>,
    hasher: RandomState,
    again: bool,
}

impl<'a> EventDedup<'a> {
    /// Wraps `observer`.
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self { observer, remembered: HashSet::new(), hasher: RandomState::new(), again: false }
    }

    /// Prepares for another attempt.
    pub fn begin_again(&mut self) {
        self.again = true;
    }

    /// Remembers an event by its contents; returns whether it is new.
    fn remember(&mut self, event: impl std::hash::Hash) -> bool {
        let hash = self.hasher.hash_one(event);
        if self.remembered.len() < REMEMBERED_MAX {
            self.remembered.insert(hash)
        } else {
            !self.remembered.contains(&hash)
        }
    }

    /// Remembers an event; returns whether it is new. An event without a memory is always new.
    fn remember_event(&mut self, event: &Event) -> bool {
        match event {
            Event::FileDone(FileReport { path, digest, .. }) => {
                let file = self.remember(("file", path));
                // An existing file is no news after its copy was reported; changed content is.
                digest.map_or(file, |digest| self.remember(("digest", path, digest)))
            }
            Event::Checksum { path, digest, .. } => self.remember(("checksum", path, digest)),
            Event::FileFailed { path, host, message } => self.remember(("failed", path, host, message)),
            Event::Differs { path, host, differences } => self.remember(("differs", path, host, differences)),
            Event::Item(ItemReport { path, .. }) => self.remember(("item", path)),
            Event::Skipped(SkipReport { path, reason }) => self.remember(("skipped", path, reason)),
            Event::SourceChanged { path, change } => self.remember(("source", path, change)),
            Event::Warning(text) => self.remember(("notice", text)),
            Event::Connecting { .. }
            | Event::Deployed { .. }
            | Event::Connected { .. }
            | Event::PathChanged { .. }
            | Event::Restarted { .. }
            | Event::Resumed(_)
            | Event::Progress(_)
            | Event::Stopped(_)
            | Event::RateLimit { .. }
            | Event::Pause { .. }
            | Event::Streams { .. } => true,
        }
    }
}

impl Observer for EventDedup<'_> {
    fn event(&mut self, event: &Event) {
        if self.remember_event(event) || !self.again {
            self.observer.event(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Listener(Vec<String>);

    impl Observer for Listener {
        fn event(&mut self, event: &Event) {
            self.0.push(match event {
                Event::FileDone(FileReport { path, digest, .. }) => {
                    format!("{} {:?}", path[0], digest.map(|digest| digest[0]))
                }
                Event::Warning(text) => text.clone(),
                other => format!("{other:?}"),
            });
        }
    }

    #[test]
    fn a_later_attempt_reports_only_new_events() {
        let file = |name: u8, digest: Option<u8>| {
            Event::FileDone(FileReport {
                path: vec![name],
                size: 1,
                copied: digest.is_some(),
                digest: digest.map(|byte| [byte; 32]),
            })
        };
        let mut listener = Listener(Vec::new());
        let mut events = EventDedup::new(&mut listener);
        let first = [file(1, Some(7)), file(2, None), Event::Warning("a".into()), Event::Warning("a".into())];
        first.iter().for_each(|event| events.event(event));
        events.begin_again();
        let second = [
            file(1, None),
            file(2, None),
            file(3, Some(9)),
            file(1, Some(7)),
            file(1, Some(8)),
            Event::Warning("a".into()),
        ];
        second.iter().for_each(|event| events.event(event));
        assert_eq!(listener.0, ["1 Some(7)", "2 None", "a", "a", "3 Some(9)", "1 Some(8)"]);
    }
}
