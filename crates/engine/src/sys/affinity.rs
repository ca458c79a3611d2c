//! CPU affinity of a worker's threads (sched_setaffinity(2)).

use haul_proto::cpus::Cpus;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins this process's threads and their children to the permitted ones of `cpus`. Returns a warning on failure,
/// without a change.
#[must_use]
pub fn keep_to(cpus: &Cpus) -> Option<String> {
    if cpus.is_empty() {
        return None;
    }
    match pin(cpus) {
        Ok(true) => {
            pin_others();
            None
        }
        Ok(false) => Some("--cpus: no such CPU on this machine, so all are used".to_owned()),
        Err(error) => Some(format!("--cpus has no effect: {}", haul_base::sys::describe::describe(&error.into()))),
    }
}

/// Pins this thread, and those that it starts, to at most `most` of its CPUs. Without permission, it keeps all.
pub fn keep_to_some(most: usize) {
    let Ok(usable) = sched_getaffinity(None) else { return };
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu)).collect();
    if all.len() <= most {
        return;
    }
    // Not every process the first ones.
    let first = usize::try_from(std::process::id()).unwrap_or_default() % all.len();
    let mut wanted = CpuSet::new();
    all.iter().cycle().skip(first).take(most).for_each(|cpu| wanted.set(*cpu));
    let _ = sched_setaffinity(None, &wanted);
}

/// Pins the existing threads to this thread's CPUs. It ignores threads that have ended meanwhile.
fn pin_others() {
    let Ok(wanted) = sched_getaffinity(None) else { return };
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = threads.filter_map(|thread| Pid::from_raw(thread.file_name().to_str()?.parse().ok()?));
    ids.for_each(|id| {
        let _ = sched_setaffinity(Some(id), &wanted);
    });
}

/// Pins this thread; `false` if it may use none of these CPUs.
fn pin(cpus: &Cpus) -> rustix::io::Result<bool> {
    let usable = sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    let here = cpus.iter().map(usize::from).filter(|cpu| *cpu < CpuSet::MAX_CPU && usable.is_set(*cpu));
    here.for_each(|cpu| wanted.set(cpu));
    if wanted.count() == 0 {
        return Ok(false);
    }
    sched_setaffinity(None, &wanted).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(numbers: &[usize]) -> Cpus {
        let mut cpus = Cpus::default();
        numbers.iter().for_each(|cpu| assert!(cpus.insert(u16::try_from(*cpu).unwrap())));
        cpus
    }

    #[test]
    fn a_thread_and_its_children_use_only_existing_processors() {
        // In a thread of its own, since it stays pinned.
        let pinned = std::thread::spawn(|| {
            let usable = sched_getaffinity(None).unwrap();
            let one = (0..CpuSet::MAX_CPU).find(|cpu| usable.is_set(*cpu)).unwrap();
            let absent = (0..CpuSet::MAX_CPU).rfind(|cpu| !usable.is_set(*cpu)).unwrap();
            assert!(!pin(&cpus(&[absent])).unwrap());
            assert!(sched_getaffinity(None).unwrap() == usable, "nothing has changed");
            assert!(pin(&cpus(&[one, absent])).unwrap());
            let child = std::thread::spawn(|| sched_getaffinity(None).unwrap()).join().unwrap();
            assert_eq!((child.count(), child.is_set(one)), (1, true));
        });
        pinned.join().unwrap();
    }

    #[test]
    fn a_thread_keeps_to_some_of_its_processors() {
        let limited = std::thread::spawn(|| {
            keep_to_some(1);
            std::thread::spawn(|| sched_getaffinity(None).unwrap().count()).join().unwrap()
        });
        assert_eq!(limited.join().unwrap(), 1);
    }
}
