"""One-time secrets in files that only this user can read, so that command lines, pickles and JSON name the file."""

from __future__ import annotations

import atexit
import os
import tempfile

FILES: dict[str, str] = {}
"""The file of each secret. Without a lock, a process is never forked while one is held."""


def file_of(secret: str) -> str:
    """The path of a file with the secret, which exists until this process ends."""
    if secret not in FILES:
        descriptor, path = tempfile.mkstemp(prefix="haul-secret-")
        with open(descriptor, "w") as file:
            file.write(secret)
        atexit.register(remove, path, os.getpid())
        FILES.setdefault(secret, path)
    return FILES[secret]


def remove(path: str, owner: int) -> None:
    """Removes a file, but not in a forked child of its ``owner``."""
    if os.getpid() == owner and os.path.exists(path):
        os.unlink(path)
