//! Text for a thread that panicked.

use std::any::Any;

/// Returns the error message for a panicked thread.
pub fn panicked(thread: &str, panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let message =
        message.map(|message| format!(": {}", message.lines().next().unwrap_or_default())).unwrap_or_default();
    format!("thread {thread} panicked{message}\nthis is a bug in haul: please report it")
}
