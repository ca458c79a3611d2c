//! The most that a server takes in one copy, in bytes of files: counted when a file is offered, and where it says no size,
//! when its bytes come.

use std::sync::atomic::{AtomicU64, Ordering};

/// What may still come, and how much it was.
pub struct Quota {
    size: u64,
    left: AtomicU64,
}

impl Quota {
    /// So many bytes, or any number.
    pub fn new(size: Option<u64>) -> Self {
        let size = size.unwrap_or(u64::MAX);
        Self { size, left: AtomicU64::new(size) }
    }

    /// So many more are to come; or why they may not.
    pub fn take(&self, bytes: u64) -> Result<(), String> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        match taken {
            _ if self.size == u64::MAX => Ok(()),
            Ok(_) => Ok(()),
            Err(left) => Err(format!(
                "the server takes {} bytes in one copy, and {left} of them are left\nask whoever runs it, or send less",
                self.size
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_taken_and_what_does_not_leaves_room_for_less() {
        let quota = Quota::new(Some(10));
        assert!(quota.take(6).is_ok());
        assert!(quota.take(5).unwrap_err().contains("10 bytes in one copy, and 4"));
        assert!(quota.take(4).is_ok() && quota.take(0).is_ok() && quota.take(1).is_err());
        let any = Quota::new(None);
        assert!(any.take(u64::MAX).is_ok() && any.take(u64::MAX).is_ok());
    }
}
