"""No process is left behind, nothing deadlocks, and what was interrupted or killed resumes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from conftest import Server, is_alive, within

import haul
from haul import events
from haul._process import abandon

pytestmark = pytest.mark.usefixtures("no_process_left")
SLOW = "4m"


def started(big: Path, target: str, rate: str = SLOW) -> haul.Transfer[haul.CopySummary]:
    """A slow copy that has written something."""
    transfer = haul.start_copy(big, target, rate=rate)
    for event in transfer:
        if isinstance(event, events.Progress) and event.bytes_written > 0:
            return transfer
    raise AssertionError("the copy ended before it could be disturbed")


def test_an_exception_in_the_block_ends_the_job(big: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        with started(big, str(tmp_path / "copy")) as transfer:
            pid = transfer.pid
            raise KeyError
    assert not is_alive(pid) and not transfer.is_running
    with pytest.raises(haul.Interrupted) as caught:
        transfer.result()
    assert caught.value.resumable and caught.value.status == 4


def test_an_exception_in_a_callback_ends_the_job(big: Path, tmp_path: Path) -> None:
    def fail(event: haul.Event) -> None:
        raise KeyError

    begun = time.monotonic()
    with pytest.raises(KeyError):
        haul.copy(big, tmp_path / "copy", rate=SLOW, on_event=fail)
    assert time.monotonic() - begun < 5


def test_a_forgotten_transfer_is_ended_when_it_is_collected(big: Path, tmp_path: Path) -> None:
    transfer = started(big, str(tmp_path / "copy"), rate="1m")
    pid = transfer.pid
    assert is_alive(pid)
    del transfer
    gc.collect()
    within(5, lambda: not is_alive(pid), "it runs on")


def test_the_end_of_python_ends_the_job(big: Path, tmp_path: Path) -> None:
    script = """
        import haul, sys
        transfer = haul.start_copy(sys.argv[1], sys.argv[2], rate="1m")
        next(transfer)
        print(transfer.pid)
    """
    words = [sys.executable, "-c", textwrap.dedent(script), str(big), str(tmp_path / "copy")]
    run = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert run.returncode == 0, run.stderr
    within(5, lambda: not is_alive(int(run.stdout)), "it runs on")


def test_control_c_interrupts_the_job_and_python(big: Path, tmp_path: Path) -> None:
    script = """
        import haul, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def note(event):
            print(event.event, flush=True)
        haul.copy(sys.argv[1], sys.argv[2], rate="1m", on_event=note)
    """
    words = [sys.executable, "-c", textwrap.dedent(script), str(big), str(tmp_path / "copy")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in error
    alive = subprocess.run(["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, text=True, timeout=10)
    assert alive.stdout.strip() == "", "the session has no process left"


def test_another_thread_can_cancel(big: Path, tmp_path: Path) -> None:
    with started(big, str(tmp_path / "copy")) as transfer:
        timer = threading.Timer(0.2, transfer.cancel)
        timer.start()
        with pytest.raises(haul.Interrupted):
            transfer.result()
        timer.join()
    assert not transfer.is_running


def test_cancel_kills_what_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = tmp_path / "deaf"
    deaf.write_text('#!/bin/sh\ntrap "" INT TERM\nprintf \'{"event":"notice","message":"up"}\\n\'\nwhile :; do sleep 0.1; done\n')
    deaf.chmod(0o755)
    monkeypatch.setenv("HAUL_BIN", str(deaf))
    with haul.start_copy("a", "b") as transfer:
        assert isinstance(next(transfer), events.Notice)
        begun = time.monotonic()
        transfer.cancel(timeout_s=0.5)
        assert time.monotonic() - begun < 5
        with pytest.raises(haul.Killed) as caught:
            transfer.result()
    assert caught.value.status == -signal.SIGKILL and caught.value.resumable


def test_a_forgotten_process_that_does_not_listen_is_killed() -> None:
    deaf = "trap '' INT TERM; echo up; while :; do sleep 0.1; done"
    process = subprocess.Popen(["sh", "-c", deaf], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    abandon(process, 0.3)
    assert process.returncode == -signal.SIGKILL and process.stdout.closed


def test_much_on_standard_error_does_not_deadlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loud = tmp_path / "loud"
    loud.write_text(
        "#!/bin/sh\n"
        'i=0; while [ $i -lt 20000 ]; do echo "haul: line $i of standard error, long enough to fill a pipe" >&2; i=$((i+1)); done\n'
        'printf \'{"event":"error","message":"it failed\\\\ndo something","status":1}\\n\'; exit 1\n'
    )
    loud.chmod(0o755)
    monkeypatch.setenv("HAUL_BIN", str(loud))
    with pytest.raises(haul.JobFailed) as caught:
        haul.copy("a", "b")
    assert (caught.value.message, caught.value.hint) == ("it failed", "do something")
    assert len(caught.value.stderr) == 200 and caught.value.stderr[-1].startswith("haul: line 19999")


def test_what_was_cancelled_resumes(big: Path, server: Server) -> None:
    with started(big, server.at("copy")):
        pass
    seen: list[events.Resumed] = []

    def note(event: haul.Event) -> None:
        if isinstance(event, events.Resumed):
            seen.append(event)

    summary = haul.copy(big, server.at("copy"), on_event=note)
    check_complete(big, server.directory / "copy", summary)
    assert len(seen) == 1 and 0 < seen[0].bytes_held < big.stat().st_size


def test_what_was_killed_resumes(big: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    with started(big, str(target)) as transfer:
        os.kill(transfer.pid, signal.SIGKILL)
        with pytest.raises(haul.Killed) as caught:
            transfer.result()
    assert caught.value.resumable and not target.exists()
    check_complete(big, target, haul.copy(big, target))


def check_complete(big: Path, target: Path, summary: haul.CopySummary) -> None:
    """The summary is that of an undisturbed copy."""
    undisturbed = haul.copy(big, target.with_name("undisturbed"))
    assert summary.files_copied == undisturbed.files_copied == 1
    assert (summary.failed, summary.status, summary.restarts) == (0, 0, 0)
    assert summary.bytes < undisturbed.bytes == big.stat().st_size, "only the rest was sent"
    assert target.read_bytes() == big.read_bytes()
