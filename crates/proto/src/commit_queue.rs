//! Which whole files are made durable together: the queue between those that write files and the one that has them put
//! on the disk. Everything that gathered while a group was under way is the next group; so groups are small where little
//! is going on and large where a wait for the disk is dear, and no clock has a say.
//!
//! Holds what it is given and knows nothing of it. Who waits for what is the engine's business.

/// Most files in a group.
const FILES_MAX: usize = 4096;
/// Bytes in a group for each stream: what the disk is given at a time, and what a job that is stopped may wait for.
const BYTES_PER_STREAM: u64 = 64 << 20;
/// From so many on, what can wait is a group of its own.
const PATIENT_MAX: usize = 1024;
/// Descriptors that are not for whole small files: directories, large files (`LARGE_IN_FLIGHT_MAX`), and what a process
/// has anyway.
const DESCRIPTORS_KEPT: u64 = 768;
/// Descriptors of a stream: its socket, its ring, and what is open beyond the limit since several find room at once.
const DESCRIPTORS_PER_STREAM: u64 = 8;
/// Groups whose files are open at any time: that which is under way and that which gathers, each of them twice as large
/// as it should be where all streams find room at once, and what the streams have in their hands.
const GROUPS_OPEN: u64 = 5;

/// How much may gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// Files in a group.
    pub files: usize,
    /// Their bytes, as far as the disk is not at work on them already.
    pub bytes: u64,
    /// Files that a stream has open before it puts them into the queue.
    pub at_once: usize,
}

impl GroupLimits {
    /// For a session that begins with `streams` and may have `streams_max`, in a process that may have so many files
    /// open; `None` is any number.
    ///
    /// Each small file that is whole is open until it has its name.
    pub fn new(descriptors: Option<u64>, streams: u16, streams_max: u16) -> Self {
        let kept = DESCRIPTORS_KEPT + DESCRIPTORS_PER_STREAM * u64::from(streams_max);
        let free = descriptors.map_or(u64::MAX, |descriptors| descriptors.saturating_sub(kept));
        let files = usize::try_from(free / GROUPS_OPEN).unwrap_or(usize::MAX).clamp(1, FILES_MAX);
        let at_once = (files / usize::from(streams_max).max(1)).max(1);
        Self { files, bytes: BYTES_PER_STREAM.saturating_mul(u64::from(streams).max(1)), at_once }
    }
}

/// What gathers while a group is under way.
#[derive(Debug)]
pub struct NextGroup<T> {
    limits: GroupLimits,
    waiting: Vec<T>,
    /// How many of those that wait are waited for.
    files: usize,
    bytes: u64,
}

impl<T> NextGroup<T> {
    /// With nothing in it.
    pub fn new(limits: GroupLimits) -> Self {
        Self { limits, waiting: Vec::new(), files: 0, bytes: 0 }
    }

    /// Whether more may be made to be put in. What is made already goes in all the same.
    pub fn has_room(&self) -> bool {
        self.files < self.limits.files && self.bytes < self.limits.bytes && self.patient() < PATIENT_MAX
    }

    /// Puts in a file, of which the disk has still to be given so many bytes.
    pub fn add(&mut self, file: T, bytes: u64) {
        self.waiting.push(file);
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Puts in something that nobody waits for before the job's end.
    pub fn add_patient(&mut self, thing: T) {
        self.waiting.push(thing);
    }

    /// Whether what is there is worth a group now.
    pub fn is_due(&self) -> bool {
        self.files > 0 || self.patient() >= PATIENT_MAX
    }

    /// Takes all of it: the next group.
    pub fn take(&mut self) -> Vec<T> {
        (self.files, self.bytes) = (0, 0);
        std::mem::take(&mut self.waiting)
    }

    fn patient(&self) -> usize {
        self.waiting.len() - self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: GroupLimits = GroupLimits { files: 3, bytes: 100, at_once: 1 };

    #[test]
    fn what_gathers_is_one_group_in_its_order() {
        let mut gathering = NextGroup::new(LIMITS);
        assert!(!gathering.is_due() && gathering.take().is_empty());
        gathering.add('a', 1);
        gathering.add_patient('b');
        gathering.add('c', 1);
        assert!(gathering.is_due());
        assert_eq!(gathering.take(), ['a', 'b', 'c']);
        assert!(!gathering.is_due() && gathering.take().is_empty());
    }

    #[test]
    fn files_and_bytes_fill_it_and_a_group_taken_empties_it() {
        let mut gathering = NextGroup::new(LIMITS);
        for (file, bytes) in [(1, 0), (2, 0)] {
            gathering.add(file, bytes);
            assert!(gathering.has_room());
        }
        gathering.add(3, 0);
        assert!(!gathering.has_room(), "three files");
        gathering.take();
        assert!(gathering.has_room());
        gathering.add(4, u64::MAX);
        gathering.add(5, u64::MAX);
        assert!(!gathering.has_room(), "more bytes than there are");
        gathering.take();
        assert!(gathering.has_room());
    }

    #[test]
    fn what_can_wait_waits_until_it_is_much() {
        let mut gathering = NextGroup::new(LIMITS);
        (1..PATIENT_MAX).for_each(|thing| gathering.add_patient(thing));
        assert!(!gathering.is_due() && gathering.has_room());
        gathering.add_patient(0);
        assert!(gathering.is_due() && !gathering.has_room());
    }

    #[test]
    fn descriptors_bound_what_is_open_at_any_time() {
        assert_eq!(GroupLimits::new(None, 2, 2), GroupLimits { files: FILES_MAX, bytes: 128 << 20, at_once: 2048 });
        assert_eq!(GroupLimits::new(Some(1 << 20), 8, 128).at_once, 32);
        for (descriptors, streams) in [(0, 256), (1024, 8), (1024, 64), (4096, 128), (4096, 256), (30_000, 8)] {
            let limits = GroupLimits::new(Some(descriptors), streams, streams);
            assert!((1..=FILES_MAX).contains(&limits.files) && limits.at_once >= 1, "{limits:?}");
            // Each stream may find room and then put in all that it has; then this becomes the group under way.
            let in_hands = usize::from(streams) * limits.at_once;
            let open = 2 * (limits.files + in_hands) + in_hands;
            let free = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_KEPT)).unwrap();
            assert!(open <= free.max(8 * usize::from(streams)), "{descriptors}, {streams}: {open} of {free}");
        }
    }
}
