"""Puts the executable into the wheel, and names the platforms that it runs on.

HAUL_BIN names the executable; else it is the one that `cargo build --profile dist --bin haul` made. A static executable
depends on no C library, so the wheel carries the tags of glibc and of musl. Another executable is refused.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

HERE = Path(__file__).resolve().parent
VARIABLE = "HAUL_BIN"
ARCHITECTURES = {62: "x86_64", 183: "aarch64"}
"""ELF's numbers of machines, and the names of tags."""
INTERPRETER_SEGMENT = 3


class ExecutableHook(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """Adds the executable as a script, and sets the tags."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        executable = find_executable()
        architecture = architecture_of_static(executable)
        build_data["shared_scripts"][str(executable)] = "haul"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux2014_{architecture}.musllinux_1_1_{architecture}"


class WorkspaceHook(MetadataHookInterface):  # type: ignore[misc,unused-ignore]
    """Version and addresses are those of the workspace."""

    def update(self, metadata: dict[str, Any]) -> None:
        manifest = HERE.parent / "Cargo.toml"
        _, _, package = manifest.read_text().partition("[workspace.package]\n")
        lines = (line.partition("=") for line in package.partition("\n[")[0].splitlines())
        values = {key.strip(): value.strip().strip('"') for key, _, value in lines}
        try:
            metadata["version"] = values["version"]
            metadata["urls"] = {"Homepage": values["homepage"], "Repository": values["repository"]}
        except KeyError as missing:
            raise ValueError(f"{manifest}: [workspace.package] has no {missing}") from None


def find_executable() -> Path:
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).resolve()
    found = sorted((HERE.parent / "target").glob("*/dist/haul"))
    if not found:
        raise FileNotFoundError(
            f"no executable below {HERE.parent / 'target'}: cargo build --workspace --profile dist --bin haul, "
            f"or set {VARIABLE}"
        )
    return found[0]


def architecture_of_static(path: Path) -> str:
    """The architecture of a static ELF executable; an error for anything else."""
    with path.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: not an executable for 64-bit Linux")
        machine = struct.unpack_from("<H", header, 18)[0]
        (start,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        for index in range(count):
            file.seek(start + index * size)
            (kind,) = struct.unpack("<I", file.read(4))
            if kind == INTERPRETER_SEGMENT:
                raise ValueError(f"{path}: needs a C library at run time; build with target-feature=+crt-static")
    if machine not in ARCHITECTURES:
        raise ValueError(f"{path}: machine {machine} has no tag here")
    return ARCHITECTURES[machine]
