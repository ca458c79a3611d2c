//! Text for a thread that panicked.

use std::any::Any;

/// Returns the error message for a panicked thread.
pub fn panicked(thread: &str, panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let said = said.map(|said| format!(": {}", said.lines().next().unwrap_or_default())).unwrap_or_default();
    format!("thread {thread} panicked{said}\nthis is a bug in haul: please report it")
}
