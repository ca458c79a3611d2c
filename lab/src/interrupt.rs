//! Ctrl-C, for programs that clean up.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};

/// A flag that the first SIGINT or SIGTERM sets: one for the whole process.
pub fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    static FLAG: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);
    let mut known = FLAG.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(flag) = &*known {
        return Ok(Arc::clone(flag));
    }
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    *known = Some(Arc::clone(&flag));
    Ok(flag)
}
