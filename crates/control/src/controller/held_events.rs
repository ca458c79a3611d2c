//! Events held until the transport path is known, so that they appear after it. Workers cause them, so their number and
//! bytes are bounded; any excess is forwarded at once.

use haul_base::copy::event::{Event, Observer};

/// Most held events.
const EVENTS_MAX: usize = 4096;
/// Most bytes of their paths and texts.
const BYTES_MAX: usize = 1 << 20;

/// Held events; none after their release.
pub struct HeldEvents<'a> {
    observer: &'a mut dyn Observer,
    events: Option<Vec<Event>>,
    bytes: usize,
}

impl<'a> HeldEvents<'a> {
    /// Creates an empty queue before this observer.
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self { observer, events: Some(Vec::new()), bytes: 0 }
    }

    /// Reports an event at once, before all that are held.
    pub fn emit_now(&mut self, event: &Event) {
        self.observer.event(event);
    }

    /// Holds an event back, or reports it after the release.
    pub fn emit(&mut self, event: Event) {
        if let Some(events) = &mut self.events {
            let bytes = self.bytes + event.text_bytes();
            if events.len() < EVENTS_MAX && bytes <= BYTES_MAX {
                self.bytes = bytes;
                events.push(event);
                return;
            }
            self.release();
        }
        self.observer.event(&event);
    }

    /// Forwards the held events, and all later ones directly.
    pub fn release(&mut self) {
        let events = self.events.take();
        events.iter().flatten().for_each(|event| self.observer.event(event));
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

    fn emit_all(held: &mut HeldEvents<'_>, texts: impl Iterator<Item = String>) {
        texts.for_each(|text| held.emit(Event::Warning(text)));
    }

    #[test]
    fn events_wait_until_they_are_released() {
        let mut seen = Seen::default();
        let mut held = HeldEvents::new(&mut seen);
        emit_all(&mut held, ["a", "b"].map(str::to_owned).into_iter());
        held.emit_now(&Event::Warning("now".into()));
        held.release();
        emit_all(&mut held, ["c".to_owned()].into_iter());
        assert_eq!(seen.0, ["now", "a", "b", "c"]);
    }

    #[test]
    fn a_flood_of_events_or_bytes_does_not_wait() {
        for (count, len) in [(EVENTS_MAX, 1), (BYTES_MAX / (64 << 10), 64 << 10)] {
            let text = |number: usize| format!("{number}{}", "x".repeat(len)).split_off(number.to_string().len());
            let mut seen = Seen::default();
            let mut held = HeldEvents::new(&mut seen);
            emit_all(&mut held, (0..count).map(text));
            assert_eq!(held.events.as_ref().map(Vec::len), Some(count), "{count} events of {len} bytes wait");
            emit_all(&mut held, (count..count + 2).map(text));
            assert!(held.events.is_none());
            assert_eq!(seen.0.len(), count + 2);
        }
    }
}
