//! Runs a program and its children under ptrace(2), and emulates the CPUID instructions replaced by `old_cpu`.
//! Otherwise the program behaves as without a tracer: signals pass, and nothing else stops it.

#[cfg(target_arch = "x86_64")]
pub use x86_64::run;

#[cfg(not(target_arch = "x86_64"))]
pub fn run(_: std::process::Command, _: crate::cpuid::CpuLevel) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("only x86-64 has a CPUID instruction")
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::__cpuid_count;
    use std::ffi::{c_int, c_long, c_void};
    use std::io;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, ExitCode};
    use std::ptr::null_mut;

    use anyhow::{Context, Result};

    use crate::cpuid::{CpuLevel, INVALID, masked};

    /// Exit status of a program that a signal ended, less the signal, as shells have it.
    const BY_SIGNAL: c_int = 128;

    /// Runs a program to its end as on a CPU of `level`, and exits with its status. Remaining children end with it.
    pub fn run(mut command: Command, level: CpuLevel) -> Result<ExitCode> {
        // SAFETY: between fork and exec, the child calls only ptrace(2), a plain system call without locks.
        unsafe { command.pre_exec(|| ptrace(libc::PTRACE_TRACEME, 0, null_mut(), null_mut()).map(drop)) };
        let first = command.spawn().with_context(|| format!("starting {:?}", command.get_program()))?;
        let first = c_int::try_from(first.id())?;
        await_stop(first)?;
        let followed = libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_EXITKILL;
        ptrace(libc::PTRACE_SETOPTIONS, first, null_mut(), followed as usize as *mut c_void)?;
        go_on(first, 0)?;
        let mut known = std::collections::HashSet::from([first]);
        loop {
            let (pid, status) = wait(-1)?;
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                known.remove(&pid);
                if pid == first {
                    return Ok(exit_code(status));
                }
                continue;
            }
            // The first stop of a new thread is the tracer's own; there is no signal to pass on.
            let is_new = known.insert(pid);
            match next_signal(pid, status, is_new, level).and_then(|signal| go_on(pid, signal)) {
                // It was killed meanwhile; wait reports its end.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                result => result.context("tracing")?,
            }
        }
    }

    /// The signal for a stopped thread when it continues; 0 for none.
    fn next_signal(pid: c_int, status: c_int, is_new: bool, level: CpuLevel) -> io::Result<c_int> {
        let signal = libc::WSTOPSIG(status);
        let is_event = status >> 16 != 0;
        match signal {
            libc::SIGILL if !is_event && answer(pid, level)? => Ok(0),
            _ if is_event || (is_new && signal == libc::SIGSTOP) => Ok(0),
            _ => Ok(signal),
        }
    }

    /// Emulates CPUID if the thread stopped at a replaced instruction.
    fn answer(pid: c_int, level: CpuLevel) -> io::Result<bool> {
        // SAFETY: zeros are a value of this structure of integers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, pid, null_mut(), (&raw mut registers).cast())?;
        let word = ptrace(
            libc::PTRACE_PEEKTEXT,
            pid,
            std::ptr::without_provenance_mut(usize::try_from(registers.rip).map_err(io::Error::other)?),
            null_mut(),
        )?;
        if word.to_le_bytes()[..INVALID.len()] != INVALID {
            return Ok(false);
        }
        let low = |register: u64| u32::try_from(register & u64::from(u32::MAX)).map_err(io::Error::other);
        let (leaf, subleaf) = (low(registers.rax)?, low(registers.rcx)?);
        let found = __cpuid_count(leaf, subleaf);
        let [eax, ebx, ecx, edx] = masked(level, leaf, subleaf, [found.eax, found.ebx, found.ecx, found.edx]);
        (registers.rax, registers.rbx) = (eax.into(), ebx.into());
        (registers.rcx, registers.rdx) = (ecx.into(), edx.into());
        registers.rip += INVALID.len() as u64;
        ptrace(libc::PTRACE_SETREGS, pid, null_mut(), (&raw mut registers).cast())?;
        Ok(true)
    }

    fn go_on(pid: c_int, signal: c_int) -> io::Result<()> {
        ptrace(libc::PTRACE_CONT, pid, null_mut(), signal as usize as *mut c_void).map(drop)
    }

    fn await_stop(pid: c_int) -> Result<()> {
        let (_, status) = wait(pid)?;
        anyhow::ensure!(libc::WIFSTOPPED(status), "the program ended before it began");
        Ok(())
    }

    fn wait(pid: c_int) -> io::Result<(c_int, c_int)> {
        loop {
            let mut status = 0;
            // SAFETY: the status is an integer of this function's own.
            let found = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
            match (found, io::Error::last_os_error()) {
                (-1, error) if error.kind() == io::ErrorKind::Interrupted => {}
                (-1, error) => return Err(error),
                _ => return Ok((found, status)),
            }
        }
    }

    fn exit_code(status: c_int) -> ExitCode {
        let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { BY_SIGNAL + libc::WTERMSIG(status) };
        ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
    }

    fn ptrace(request: libc::c_uint, pid: c_int, address: *mut c_void, data: *mut c_void) -> io::Result<c_long> {
        // PEEKTEXT returns the word itself, which may be -1.
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = 0 };
        // SAFETY: the addresses written to belong to callers' own structures of the request's size (GETREGS, SETREGS).
        // All others are numbers or addresses in the traced process, checked by the kernel.
        let answer = unsafe { libc::ptrace(request, pid, address, data) };
        let error = io::Error::last_os_error();
        if answer == -1 && error.raw_os_error() != Some(0) { Err(error) } else { Ok(answer) }
    }
}
