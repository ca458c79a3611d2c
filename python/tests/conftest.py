"""Fixtures: the executable, files to copy, and servers of haul on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import pytest

from haul._session import SESSIONS

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0


@dataclass
class Server:
    """A ``haul serve`` of a directory, and the line that it prints."""

    directory: Path
    line: str
    process: subprocess.Popen[str]

    def at(self, path: str) -> str:
        return f"{self.line}:{path}"

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_server(directory: Path, *options: str) -> Server:
    executable = os.environ["HAUL_BIN"]
    log = open(directory.parent / f"{directory.name}.log", "ab")
    with log:
        fixed = ["--bind", "127.0.0.1", "--allow-unsandboxed", "--grace", "1s"]
        words = [executable, "serve", *fixed, *options, str(directory)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    timer = threading.Timer(START_TIMEOUT_S, process.kill)
    timer.start()
    line = process.stdout.readline().strip()
    timer.cancel()
    if not line.startswith("haul://"):
        process.kill()
        process.wait()
        raise AssertionError(f"haul serve printed {line!r}: {Path(log.name).read_text()}")
    return Server(directory, line, process)


@pytest.fixture(scope="session", autouse=True)
def executable() -> str:
    """The executable under test. Without ``HAUL_BIN`` nothing is tested, and that is a failure."""
    named = os.environ.get("HAUL_BIN")
    assert named, "set HAUL_BIN to the executable that is tested"
    return named


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration or state of the user has any influence."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    directory = tmp_path / "served"
    directory.mkdir()
    served = start_server(directory)
    yield served
    served.stop()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree, with a name that is not UTF-8 and an empty file."""
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "a").write_bytes(b"a" * 100_000)
    (tree / "below" / "empty").write_bytes(b"")
    Path(os.fsdecode(os.fsencode(tree) + b"/\xffname")).write_bytes(b"x")
    return tree


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A file that takes seconds at the rate of ``SLOW``, and is large enough to be resumed."""
    path = tmp_path / "big"
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for number in range(24):
            file.write(number.to_bytes(4, "little") + block[4:])
    return path


def is_alive(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def read_or_nothing(path: Path) -> bytes:
    """The contents of a file of /proc, whose thread or process may be gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def children() -> set[int]:
    """Children of this process that run haul."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        for word in read_or_nothing(task / "children").decode().split():
            command = read_or_nothing(Path(f"/proc/{word}/cmdline"))
            if b"haul" in command and b"serve" not in command and is_alive(int(word)):
                found.add(int(word))
    return found


def within(seconds: float, condition: Callable[[], bool], why: Optional[str] = None) -> None:
    """Waits until a condition holds."""
    pause = threading.Event()
    for _ in range(int(seconds * 50)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError(why or f"not within {seconds} s")


@pytest.fixture
def no_process_left() -> Iterator[None]:
    """Fails if a test leaves haul running."""
    before = children()
    yield
    # A session stays as long as its file system, which fsspec may keep.
    for session in list(SESSIONS):
        session.close()
    within(5, lambda: children() <= before, "haul still runs after the test")
