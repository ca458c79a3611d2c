//! rsync's exit statuses (rsync(1), "EXIT VALUES").

use haul_base::copy::error::{Error, Outcome};

/// Success.
pub const DONE: u8 = 0;
/// Syntax or usage error.
pub const USAGE: u8 = 1;
/// Partial transfer due to an error.
pub const PARTIAL: u8 = 23;
/// A source or a target cannot be used (RERR_FILESELECT).
pub const PLACE: u8 = 3;
/// Partial transfer due to vanished source files.
pub const VANISHED: u8 = 24;

/// The status of a finished copy, of which this many entries failed.
pub fn of(outcome: &Outcome, failed: u64) -> u8 {
    match outcome {
        Ok(_) if failed > 0 => PARTIAL,
        Ok(summary) if summary.files.vanished > 0 => VANISHED,
        Ok(_) => DONE,
        // ssh's own status, which rsync passes on.
        Err(Error::Connect(_)) => 255,
        Err(Error::Interrupted) => 20,
        Err(Error::Broken(_)) => 12,
        Err(Error::Usage(_)) => 3,
        Err(Error::Failed(_)) => PARTIAL,
    }
}

/// What rsync says about a status at the end.
pub fn words(status: u8) -> Option<&'static str> {
    Some(match status {
        USAGE => "syntax or usage error",
        PLACE => "errors selecting input/output files, dirs",
        12 => "error in rsync protocol data stream",
        20 => "received SIGINT, SIGTERM, or SIGHUP",
        PARTIAL => "some files/attrs were not transferred (see previous errors)",
        VANISHED => "some files vanished before they could be transferred",
        255 => "unexplained error",
        _ => return None,
    })
}
