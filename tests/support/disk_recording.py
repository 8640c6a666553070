"""What a process did to the files of a folder, call by call, in order; see recording_disk.c."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

HEAD: Final = struct.Struct("<cIQI")
MARK: Final = b"M"


class Record(NamedTuple):
    """One change that was made, or one mark."""

    kind: str
    """W written, L its length set, S synchronised, C made, U unlinked, R renamed, M a mark."""
    name: str
    """Of the file in the folder; "" is the folder itself. Of a mark what it is about."""
    at: int = 0
    """Where it was written, or the length; of a mark its number."""
    data: bytes = b""
    """What was written, or the new name."""


def read(path: Path) -> Iterator[Record]:
    """Return the records of a file; one that a kill has cut off is none."""
    octets = path.read_bytes()
    at = 0
    while at + HEAD.size <= len(octets):
        kind, name_size, number, size = HEAD.unpack_from(octets, at)
        begin = at + HEAD.size + name_size
        at = begin + size
        if at <= len(octets):
            yield Record(kind.decode(), octets[begin - name_size : begin].decode(), number, octets[begin:at])


class Marks:
    """Puts marks between the records, from whatever process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def put(self, name: str, number: int) -> None:
        os.write(self._file, HEAD.pack(MARK, len(name.encode()), number, 0) + name.encode())

    def close(self) -> None:
        os.close(self._file)


def library(folder: Path) -> Path:
    """Return the library that records, made from recording_disk.c; skip the test where that cannot be."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("What is done to files can be recorded on Linux, where there is a C compiler.")
    made = folder / "recording_disk.so"
    source = Path(__file__).with_name("recording_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(made), str(source)], check=True)
    return made


def environment(library: Path, folder: Path, record: Path, **death: int) -> dict[str, str]:
    """Return the environment of a process that is recorded; see recording_disk.c for how it may be killed."""
    return {
        **os.environ,
        "LD_PRELOAD": str(library),
        "RECORDED": str(folder),
        "RECORD": str(record),
        **{name: str(number) for name, number in death.items()},
    }
