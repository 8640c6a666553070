"""Progress of a job that a command waits for, in one line of a terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TextIO

from penstock.cli.common import control_session
from penstock.errors import PenstockError
from penstock.operations.commands import job_words
from penstock.texts import printable

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

AFTER_S: Final = 1.0
"""Seconds after which a command has a line of progress."""
EVERY_S: Final = 0.5
"""Seconds between two looks at the job."""
CLEARED: Final = "\r\033[K"
"""Control characters by which a terminal clears the line."""


@contextlib.contextmanager
def shown_progress(url: str, name: str) -> Iterator[None]:
    """Show the progress of the job that the connection of this name waits for, on standard error if it is a terminal.

    It asks on a second connection. An error there ends the line, and never the command.
    """
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(url, name, ended, sys.stderr), daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join(AFTER_S)


def _watch(url: str, name: str, ended: threading.Event, stream: TextIO) -> None:
    if ended.wait(AFTER_S):
        return
    with contextlib.suppress(PenstockError, OSError), control_session(url) as control:
        show_until(control, name, ended, stream)


def show_until(control: Connection, name: str, ended: threading.Event, stream: TextIO) -> None:
    """Write the progress of a job until an event is set; then clear the line."""
    try:
        while not ended.is_set():
            job = _job_of(control, name)
            if job is not None:
                words = f"job {job['id']} is {job['state']}: {job_words(job)}"
                stream.write(f"{CLEARED}{printable(words)}")
                stream.flush()
            ended.wait(EVERY_S)
    finally:
        stream.write(CLEARED)
        stream.flush()


def _job_of(control: Connection, name: str) -> dict[str, Any] | None:
    """Return the unfinished job that the connection of this name waits for; None without one."""
    from penstock.operations.command_lists import JOBS

    jobs = control.request(JOBS.asks)[JOBS.key]
    return next((job for job in jobs if job["ended_at"] is None and name in job["asker"]), None)
