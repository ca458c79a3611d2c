//! Events held until the transport path is known, so that they appear after it. Workers cause them, so their number and
//! bytes are bounded; any excess is forwarded at once.

use crate::job::event::{Event, Observer};

/// Most held events.
const EVENTS_MAX: usize = 4096;
/// Most bytes of their paths and texts.
const BYTES_MAX: usize = 1 << 20;

/// Held events; none after their release.
pub struct HeldEvents {
    events: Option<Vec<Event>>,
    bytes: usize,
}

impl HeldEvents {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self { events: Some(Vec::new()), bytes: 0 }
    }

    /// Holds an event back, or forwards it after the release.
    pub fn forward(&mut self, event: Event, observer: &mut dyn Observer) {
        if let Some(events) = &mut self.events {
            let bytes = self.bytes + event.text_bytes();
            if events.len() < EVENTS_MAX && bytes <= BYTES_MAX {
                self.bytes = bytes;
                events.push(event);
                return;
            }
            self.release(observer);
        }
        observer.event(&event);
    }

    /// Forwards the held events, and all later ones directly.
    pub fn release(&mut self, observer: &mut dyn Observer) {
        let events = self.events.take();
        events.iter().flatten().for_each(|event| observer.event(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Observer for Seen {
        fn event(&mut self, event: &Event) {
            let Event::Warning(text) = event else { panic!("{event:?}") };
            self.0.push(text.chars().take(9).collect());
        }
    }

    fn forwarded(held: &mut HeldEvents, texts: impl Iterator<Item = String>) -> Seen {
        let mut seen = Seen::default();
        texts.for_each(|text| held.forward(Event::Warning(text), &mut seen));
        seen
    }

    #[test]
    fn events_wait_until_they_are_released() {
        let mut held = HeldEvents::new();
        let mut seen = forwarded(&mut held, ["a", "b"].map(str::to_owned).into_iter());
        assert!(seen.0.is_empty());
        held.release(&mut seen);
        assert_eq!(seen.0, ["a", "b"]);
        assert_eq!(forwarded(&mut held, ["c".to_owned()].into_iter()).0, ["c"]);
    }

    #[test]
    fn a_flood_of_events_or_bytes_does_not_wait() {
        for (count, len) in [(EVENTS_MAX, 1), (BYTES_MAX / (64 << 10), 64 << 10)] {
            let text = |number: usize| format!("{number}{}", "x".repeat(len)).split_off(number.to_string().len());
            let mut held = HeldEvents::new();
            assert!(forwarded(&mut held, (0..count).map(text)).0.is_empty(), "{count} events of {len} bytes wait");
            let seen = forwarded(&mut held, (count..count + 2).map(text)).0;
            assert_eq!(seen.len(), count + 2);
            assert!(held.events.is_none());
        }
    }
}
