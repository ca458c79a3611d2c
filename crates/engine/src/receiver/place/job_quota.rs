//! The most that a server takes from all its clients: bytes of files are counted when a file is offered, and where it says
//! no size, when its bytes come; names, when something is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::job::allowance::Allowance;

/// What this job has taken of it. Any number, where there is no server.
#[derive(Default)]
pub struct JobQuota {
    allowance: Option<Arc<Allowance>>,
    bytes: AtomicU64,
}

impl JobQuota {
    /// Of what a server allows, if there is one.
    pub fn new(allowance: Option<Arc<Allowance>>) -> Self {
        Self { allowance, bytes: AtomicU64::new(0) }
    }

    /// So many more bytes are to come; or why they may not.
    pub fn take(&self, bytes: u64) -> Result<(), String> {
        let Some(allowance) = &self.allowance else { return Ok(()) };
        allowance.take(bytes, 0)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Reserves names; the error is the reason for a refusal.
    pub fn take_names(&self, names: u64) -> Result<(), String> {
        self.allowance.as_ref().map_or(Ok(()), |allowance| allowance.take(0, names))
    }

    /// The job is over after this many bytes: returns the rest.
    pub fn end(&self, came: u64) {
        let unused = self.bytes.swap(0, Ordering::Relaxed).saturating_sub(came);
        self.allowance.iter().for_each(|allowance| allowance.give_back(unused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_come_is_given_back() {
        let allowance = Arc::new(Allowance::new(Some(10), Some(2)).unwrap());
        let job = || JobQuota::new(Some(Arc::clone(&allowance)));
        let broken = job();
        assert!(broken.take(8).is_ok() && broken.take_names(1).is_ok() && job().take(3).is_err());
        broken.end(5);
        broken.end(5);
        let next = job();
        assert!(next.take(6).is_err() && next.take(5).is_ok());
        assert!(next.take_names(1).is_ok() && next.take_names(1).is_err());
        let any = JobQuota::default();
        assert!(any.take(u64::MAX).is_ok() && any.take_names(u64::MAX).is_ok());
    }
}
