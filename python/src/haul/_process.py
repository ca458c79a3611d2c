"""Ends child processes: by signal, with a limit, and never leaves one behind."""

from __future__ import annotations

import signal
import subprocess
from typing import Any


def stop_signal() -> signal.Signals:
    """SIGINT, or SIGTERM where this process ignores SIGINT, since children inherit that."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return signal.SIGTERM if is_ignored else signal.SIGINT


def end(process: subprocess.Popen[Any], timeout_s: float) -> int:
    """Asks a process to stop, kills it after ``timeout_s``, and returns its status."""
    if process.poll() is None:
        process.send_signal(stop_signal())
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def abandon(process: subprocess.Popen[Any], timeout_s: float) -> None:
    """Ends a process that nobody reads any more. Closing its output first keeps it from waiting for a reader."""
    for pipe in (process.stdout, process.stdin):
        if pipe is not None and not pipe.closed:
            close_quietly(pipe)
    end(process, timeout_s)


def close_quietly(pipe: Any) -> None:
    try:
        pipe.close()
    except (OSError, ValueError):
        pass
