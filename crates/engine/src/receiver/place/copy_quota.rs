//! A server's limit for all its clients. File bytes are counted at the offer, or on arrival if the size is unknown;
//! names are counted at creation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_base::copy::allowance::Allowance;

use crate::receiver::place::error::FileError;

/// This copy's share of the limit; unlimited without a server.
#[derive(Default)]
pub struct CopyQuota {
    allowance: Option<Arc<Allowance>>,
    bytes: AtomicU64,
}

impl CopyQuota {
    /// A share of a server's limit, if there is one.
    pub fn new(allowance: Option<Arc<Allowance>>) -> Self {
        Self { allowance, bytes: AtomicU64::new(0) }
    }

    /// Reserves bytes; the error is the reason for a refusal.
    pub fn reserve(&self, bytes: u64) -> Result<(), FileError> {
        let Some(allowance) = &self.allowance else { return Ok(()) };
        allowance.reserve(bytes, 0).map_err(|error| FileError::Quota(error.into()))?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Reserves names; the error is the reason for a refusal.
    pub fn take_names(&self, names: u64) -> Result<(), FileError> {
        let reserved = self.allowance.as_ref().map_or(Ok(()), |allowance| allowance.reserve(0, names));
        reserved.map_err(|error| FileError::Quota(error.into()))
    }

    /// Ends the copy after `came` bytes, and returns the rest of the reservation.
    pub fn end(&self, came: u64) {
        let unused = self.bytes.swap(0, Ordering::Relaxed).saturating_sub(came);
        self.allowance.iter().for_each(|allowance| allowance.give_back(unused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_quota_is_returned() {
        let allowance = Arc::new(Allowance::new(Some(10), Some(2)).unwrap());
        let copy = || CopyQuota::new(Some(Arc::clone(&allowance)));
        let broken = copy();
        assert!(broken.reserve(8).is_ok() && broken.take_names(1).is_ok() && copy().reserve(3).is_err());
        broken.end(5);
        broken.end(5);
        let next = copy();
        assert!(next.reserve(6).is_err() && next.reserve(5).is_ok());
        assert!(next.take_names(1).is_ok() && next.take_names(1).is_err());
        let any = CopyQuota::default();
        assert!(any.reserve(u64::MAX).is_ok() && any.take_names(u64::MAX).is_ok());
    }
}
