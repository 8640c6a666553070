"""Files of definitions for the start of a broker: one file, or the files *.json of a folder in the order of names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.errors import PreconditionFailed, StartError
from penstock.operations.definitions_parser import BYTES_MOST
from penstock.operations.definitions_start import DefinitionsFile, check_file

FILES_MOST: Final = 1000
"""Most files of a folder."""
FOLDER_BYTES_MOST: Final = 64 * 1024 * 1024
"""Most bytes of all files of a folder: all are in memory until the last is imported."""


def read_definitions(path: Path) -> list[DefinitionsFile]:
    """Read a file, or the files of a folder. Raises StartError that names the path. Blocks, so call it in a thread.

    Hidden files are left out: a mounted folder of Kubernetes has hidden copies of its files.
    """
    if not path.is_dir():
        return [_read(path)]
    try:
        names = sorted(each.name for each in path.iterdir() if each.suffix == ".json" and each.name[0] != ".")
    except OSError as error:
        raise _unreadable(path, error) from None
    if not names:
        raise StartError(f"definitions '{path}': the folder has no file *.json")
    if len(names) > FILES_MOST:
        raise StartError(f"definitions '{path}': the folder has {len(names):,} files; the most is {FILES_MOST:,}")
    files: list[DefinitionsFile] = []
    left = FOLDER_BYTES_MOST
    for name in names:
        file = _read(path / name)
        left -= len(file.data)
        if left < 0:
            raise StartError(f"definitions '{path}': the files have more than {FOLDER_BYTES_MOST:,} bytes together")
        files.append(file)
    return files


def check_definitions(path: Path) -> None:
    """Check the syntax, keys and types of all files, without a broker. Raises StartError with file, line and key."""
    try:
        for file in read_definitions(path):
            check_file(file)
    except PreconditionFailed as error:
        raise StartError(str(error)) from None


def _read(path: Path) -> DefinitionsFile:
    """Read a file. Raises StartError for a file that is too large, of which little is read."""
    if path.exists() and not path.is_file():
        raise StartError(f"definitions '{path}' is neither a file nor a folder")
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MOST + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(data) > BYTES_MOST:
        raise StartError(
            f"definitions '{path}': the file has more than {BYTES_MOST:,} bytes, the most that is imported at once; "
            "nothing was imported"
        )
    return DefinitionsFile(str(path), data)


def _unreadable(path: Path, error: OSError) -> StartError:
    return StartError(f"definitions '{path}' cannot be read: {error.strerror}")
