//! A job's rate limit, shared by its running shards.

use haul_base::copy::rate::RateHandle;
use haul_base::sys::cancel::Cancel;

use crate::directory::JobDirectory;
use crate::shard_lock::{BEAT_EVERY, locked_shards};

/// The part of `limit`, in bytes per second, for one of the shards that run now, this one included.
pub fn share(job: &JobDirectory, limit: u64) -> u64 {
    let running = u64::try_from(locked_shards(job).len()).unwrap_or(u64::MAX);
    (limit / running.max(1)).max(1)
}

/// Keeps `rate` at this shard's share until `ended`.
pub fn keep_share(job: &JobDirectory, limit: u64, rate: &RateHandle, ended: &Cancel) {
    let mut last = None;
    loop {
        let now = share(job, limit);
        if last.replace(now) != Some(now) {
            rate.set(Some(now));
        }
        if ended.wait(BEAT_EVERY) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard_lock::{LockedWork, ShardLock};

    #[test]
    fn running_shards_share_a_limit() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        assert_eq!(share(&job, 900), 900);
        let take = |shard| ShardLock::try_take(&job, LockedWork::Shard(shard), &Cancel::new()).unwrap();
        let locks = [take(0), take(1), take(2)];
        assert_eq!([share(&job, 900), share(&job, 2)], [300, 1]);
        drop(locks);
        assert_eq!(share(&job, 900), 900);
    }
}
