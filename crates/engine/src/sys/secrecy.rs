//! Keeps other processes out of this one's memory: secrets are in it.

/// From now on, no process of the same user may trace this one, read its memory or list its descriptors, and a crash
/// leaves no core file (`PR_SET_DUMPABLE` of prctl(2)). Root still may. Programs that it starts are not affected.
pub fn forbid_tracing() {
    // It fails for no value that the kernel knows.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
