//! Waiting for something to become true, with an end to it.

use std::thread;
use std::time::{Duration, Instant};

/// How often is looked.
const POLL: Duration = Duration::from_millis(2);

/// Whether `condition` becomes true before `limit` is over.
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
}

/// Waits until `condition` is true; fails the test with `what` in its message after 20 s.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(within(Duration::from_secs(20), condition), "waited in vain: {what}");
}
