"""Progress bars: a widget in notebooks, else a line of text."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Callable, Optional, TextIO, Union

from ._units import amount, counted
from .events import Again, Event, Progress
from .summaries import Summary

BAR_CHARS = 24


class Display:
    """What shows the progress of one job. This one shows nothing."""

    def show(self, event: Event) -> None:
        """Shows an event."""

    def finish(self, summary: Summary) -> None:
        """Shows the result of a job that ran to its end."""

    def close(self) -> None:
        """Ends the display, also after an exception."""

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


class CallbackDisplay(Display):
    """Hands each ``Progress`` to a function."""

    def __init__(self, callback: Callable[[Progress], object]) -> None:
        self._callback = callback

    def show(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._callback(event)


class RateMeter:
    """The rate between the last two figures."""

    def __init__(self) -> None:
        self._last: Optional[tuple[float, int]] = None
        self.bytes_per_s: Optional[float] = None

    def update(self, settled: int) -> None:
        now = time.monotonic()
        if self._last is not None and now > self._last[0]:
            self.bytes_per_s = max(0, settled - self._last[1]) / (now - self._last[0])
        self._last = (now, settled)


class TextDisplay(Display):
    """A line that is rewritten on a terminal. Elsewhere, a line for each ten per cent."""

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._meter = RateMeter()
        self._width = 0
        self._tenth = -1

    def show(self, event: Event) -> None:
        if isinstance(event, Again):
            self._write_line(f"reconnecting in {event.pause_s:.0f} s: {first_line(event.message)}")
        elif isinstance(event, Progress):
            self._meter.update(event.bytes_settled)
            text = progress_text(event, self._meter.bytes_per_s)
            if self._is_terminal:
                self._rewrite(f"{text_bar(event.fraction)} {text}")
            elif event.fraction is not None and int(event.fraction * 10) > self._tenth:
                self._tenth = int(event.fraction * 10)
                self._write_line(text)

    def finish(self, summary: Summary) -> None:
        self._write_line(str(summary))

    def close(self) -> None:
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
            self._width = 0

    def _rewrite(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def _write_line(self, text: str) -> None:
        start = "\r" if self._width else ""
        self._stream.write(start + text.ljust(self._width) + "\n")
        self._stream.flush()
        self._width = 0


class NotebookDisplay(Display):
    """A bar of ipywidgets with a label."""

    def __init__(self) -> None:
        import ipywidgets  # type: ignore[import-untyped,import-not-found,unused-ignore]
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        self.bar: Any = ipywidgets.FloatProgress(value=0.0, min=0.0, max=1.0)
        self.label: Any = ipywidgets.Label(value="starting")
        self._meter = RateMeter()
        self._is_finished = False
        display(ipywidgets.HBox([self.bar, self.label]))  # type: ignore[no-untyped-call,unused-ignore]

    def show(self, event: Event) -> None:
        if isinstance(event, Again):
            self.label.value = f"reconnecting: {first_line(event.message)}"
        elif isinstance(event, Progress):
            self._meter.update(event.bytes_settled)
            self.label.value = progress_text(event, self._meter.bytes_per_s)
            if event.fraction is not None:
                self.bar.value = event.fraction

    def finish(self, summary: Summary) -> None:
        self._is_finished = True
        self.bar.value = 1.0
        self.bar.bar_style = "success"
        self.label.value = str(summary)

    def close(self) -> None:
        if not self._is_finished:
            self.bar.bar_style = "danger"


def display_for(progress: Union[None, bool, Callable[[Progress], object], Display]) -> Display:
    """The display that an argument ``progress`` asks for."""
    if progress is None or progress is False:
        return Display()
    if isinstance(progress, Display):
        return progress
    if progress is True:
        return NotebookDisplay() if has_widgets() else TextDisplay()
    return CallbackDisplay(progress)


def has_widgets() -> bool:
    """Whether this is a kernel of Jupyter with ipywidgets."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return False
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True


def text_bar(fraction: Optional[float]) -> str:
    if fraction is None:
        return "[" + "?" * BAR_CHARS + "]"
    full = int(fraction * BAR_CHARS)
    return "[" + "#" * full + "-" * (BAR_CHARS - full) + "]"


def progress_text(progress: Progress, bytes_per_s: Optional[float]) -> str:
    share = "" if progress.fraction is None else f"{progress.fraction:4.0%} "
    rate = "" if bytes_per_s is None else f", {amount(bytes_per_s)}/s"
    limit = "" if progress.limited_by is None else f", limited by {progress.limited_by.limit}"
    settled = f"{amount(progress.bytes_settled)} of {amount(progress.bytes_found)}"
    return f"{share}{settled}, {progress.files_settled:,} of {counted(progress.files_found, 'file')}{rate}{limit}"


def first_line(text: str) -> str:
    return text.split("\n", 1)[0]
