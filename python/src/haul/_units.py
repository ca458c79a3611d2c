"""Numbers for people."""

from __future__ import annotations

UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def amount(number: float) -> str:
    """Bytes with a decimal unit, three digits."""
    for unit in UNITS[:-1]:
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} {UNITS[-1]}"


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
