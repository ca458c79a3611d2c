//! Protects this process's memory, with its secrets, from other processes.

/// Forbids other processes of the same user to trace this one, read its memory or list its descriptors; a crash leaves
/// no core file (`PR_SET_DUMPABLE` of prctl(2)). Root and child programs are not affected.
pub fn forbid_tracing() {
    // It fails for no value that the kernel knows.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
