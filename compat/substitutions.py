"""What of other people's tests names a fixed port or a product, and what takes its place: nothing else is changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

AMQP_PORT, HTTP_PORT = "@AMQP_PORT@", "@HTTP_PORT@"
"""What stands in a substitution for the ports of the broker."""


class SourcesUnavailable(Exception):
    """The sources cannot be had; the text says why in one sentence."""


class Substitution(NamedTuple):
    """A piece of text that stands in a file so many times, and what it becomes."""

    path: str
    before: str
    after: str
    times: int = 1


def substitute(root: Path, wanted: tuple[Substitution, ...]) -> None:
    """Change the files below the root. Raises SourcesUnavailable where one is not as it is known to be."""
    for one in wanted:
        path = root / one.path
        text = path.read_text()
        if text.count(one.before) != one.times:
            raise SourcesUnavailable(f"{one.path} of {root.name} has not {one.times} times `{one.before}`.")
        path.write_text(text.replace(one.before, one.after))


def copy_at(folder: Path, substitutions: tuple[Substitution, ...], ports: tuple[int, int], scratch: Path) -> Path:
    """Return a copy of substituted sources that knows the broker's ports, of AMQP and HTTP; made once for each pair."""
    copy = scratch / f"{folder.name}-{ports[0]}-{ports[1]}"
    if not copy.is_dir():
        shutil.copytree(folder, copy)
        for path in {copy / one.path for one in substitutions}:
            text = path.read_text()
            path.write_text(text.replace(AMQP_PORT, str(ports[0])).replace(HTTP_PORT, str(ports[1])))
    return copy
