//! Group commit: the queue between the threads that write files and the thread that syncs them to disk.
//!
//! Files that gather while one group is being committed form the next group. Groups are therefore small under light
//! load and large where a disk flush is expensive, without a timer.
//!
//! The queue only holds its items. Who waits for which item is decided in the engine.

/// Most files in a group.
const FILES_MAX: usize = 4096;
/// Bytes in a group per stream. This bounds each flush, and the wait of a copy that is being stopped.
const BYTES_PER_STREAM: u64 = 64 << 20;
/// Number of deferrable items that forms a group of its own.
const PATIENT_MAX: usize = 1024;
/// Descriptors reserved for other uses: directories, large files (`LARGE_IN_FLIGHT_MAX`) and those of every process.
const DESCRIPTORS_KEPT: u64 = 768;
/// Descriptors of a stream: its socket, its ring, and files beyond the limit where several streams find room at once.
const DESCRIPTORS_PER_STREAM: u64 = 8;
/// Groups with open files at any time: the one being committed, the one that gathers, and the files held by streams.
/// The first two count double, since all streams may find room at once.
const GROUPS_OPEN: u64 = 5;

/// Limits of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// Files in a group.
    pub files: usize,
    /// Bytes of these files, except those already being written back.
    pub bytes: u64,
    /// Files that a stream may hold open before it enqueues them.
    pub at_once: usize,
}

impl GroupLimits {
    /// Derives limits for a session that begins with `streams` and may grow to `streams_max`.
    ///
    /// `descriptors` is the process's limit of open files; `None` means no limit. Each complete small file stays open
    /// until it has its final name.
    pub fn new(descriptors: Option<u64>, streams: u16, streams_max: u16) -> Self {
        let kept = DESCRIPTORS_KEPT + DESCRIPTORS_PER_STREAM * u64::from(streams_max);
        let free = descriptors.map_or(u64::MAX, |descriptors| descriptors.saturating_sub(kept));
        let files = usize::try_from(free / GROUPS_OPEN).unwrap_or(usize::MAX).clamp(1, FILES_MAX);
        let at_once = (files / usize::from(streams_max).max(1)).max(1);
        Self { files, bytes: BYTES_PER_STREAM.saturating_mul(u64::from(streams).max(1)), at_once }
    }
}

/// The group that gathers while another is being committed.
#[derive(Debug)]
pub struct NextGroup<T> {
    limits: GroupLimits,
    waiting: Vec<T>,
    /// Number of items with a waiter.
    files: usize,
    bytes: u64,
}

impl<T> NextGroup<T> {
    /// Creates an empty group.
    pub fn new(limits: GroupLimits) -> Self {
        Self { limits, waiting: Vec::new(), files: 0, bytes: 0 }
    }

    /// Whether more files may be created for this group. Files already created are accepted in any case.
    pub fn has_room(&self) -> bool {
        self.files < self.limits.files && self.bytes < self.limits.bytes && self.patient() < PATIENT_MAX
    }

    /// Adds a file with `bytes` still to be flushed to disk.
    pub fn add(&mut self, file: T, bytes: u64) {
        self.waiting.push(file);
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds an item without a waiter before the end of the copy.
    pub fn add_patient(&mut self, thing: T) {
        self.waiting.push(thing);
    }

    /// Whether the present items justify a group now.
    pub fn is_due(&self) -> bool {
        self.files > 0 || self.patient() >= PATIENT_MAX
    }

    /// Takes all items as the next group.
    pub fn take_group(&mut self) -> Vec<T> {
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
    fn gathered_files_form_one_group_in_order() {
        let mut gathering = NextGroup::new(LIMITS);
        assert!(!gathering.is_due() && gathering.take_group().is_empty());
        gathering.add('a', 1);
        gathering.add_patient('b');
        gathering.add('c', 1);
        assert!(gathering.is_due());
        assert_eq!(gathering.take_group(), ['a', 'b', 'c']);
        assert!(!gathering.is_due() && gathering.take_group().is_empty());
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
        gathering.take_group();
        assert!(gathering.has_room());
        gathering.add(4, u64::MAX);
        gathering.add(5, u64::MAX);
        assert!(!gathering.has_room(), "more bytes than there are");
        gathering.take_group();
        assert!(gathering.has_room());
    }

    #[test]
    fn small_groups_wait_until_they_are_large() {
        let mut gathering = NextGroup::new(LIMITS);
        (1..PATIENT_MAX).for_each(|thing| gathering.add_patient(thing));
        assert!(!gathering.is_due() && gathering.has_room());
        gathering.add_patient(0);
        assert!(gathering.is_due() && !gathering.has_room());
    }

    #[test]
    fn descriptors_bound_the_number_of_open_files() {
        assert_eq!(GroupLimits::new(None, 2, 2), GroupLimits { files: FILES_MAX, bytes: 128 << 20, at_once: 2048 });
        assert_eq!(GroupLimits::new(Some(1 << 20), 8, 128).at_once, 32);
        for (descriptors, streams) in [(0, 256), (1024, 8), (1024, 64), (4096, 128), (4096, 256), (30_000, 8)] {
            let limits = GroupLimits::new(Some(descriptors), streams, streams);
            assert!((1..=FILES_MAX).contains(&limits.files) && limits.at_once >= 1, "{limits:?}");
            // Each stream may find room and then add all its files; then this becomes the group being committed.
            let in_hands = usize::from(streams) * limits.at_once;
            let open = 2 * (limits.files + in_hands) + in_hands;
            let free = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_KEPT)).unwrap();
            assert!(open <= free.max(8 * usize::from(streams)), "{descriptors}, {streams}: {open} of {free}");
        }
    }
}
