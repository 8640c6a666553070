"""Progress of a job that a command waits for, in one line of a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TextIO

from penstock.cli.cells import cut
from penstock.cli.common import control_session, say
from penstock.cli.progress import stderr_columns
from penstock.errors import PenstockError
from penstock.operations.command_jobs import job_words
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
    """Show the progress of the job that the connection of this name waits for, on a terminal of standard error.

    It asks on a second connection. An error there ends the line, and never the command. A last line after Ctrl-C names
    the job, which goes on.
    """
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(url, name, ended, sys.stderr), daemon=True)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        watching.start()
    try:
        yield
    except KeyboardInterrupt:
        ended.set()
        say(f"penstock: interrupted: {_after_interrupt(url, name)}", err=True)
        raise
    finally:
        ended.set()
        if watching.ident is not None:
            watching.join(AFTER_S)


def _after_interrupt(url: str, name: str) -> str:
    """Return what becomes of the job of a command that no longer waits for it."""
    job = None
    with contextlib.suppress(PenstockError, OSError), control_session(url, connect_timeout=AFTER_S) as control:
        job = _job_of(control, name)
    if job is None:
        return "`penstock jobs list` shows what the broker has begun, and goes on with"
    words = job_words(job)
    counts = f" ({words})" if words else ""
    return f"job {job['id']} goes on{counts}; `penstock jobs cancel {job['id']}` cancels it"


def _watch(url: str, name: str, ended: threading.Event, stream: TextIO) -> None:
    if ended.wait(AFTER_S):
        return
    with contextlib.suppress(PenstockError, OSError), control_session(url) as control:
        show_until(control, name, ended, stream, stderr_columns())


def show_until(control: Connection, name: str, ended: threading.Event, stream: TextIO, columns: int) -> None:
    """Write the progress of a job in a line of so many columns until an event is set; then clear the line."""
    try:
        while not ended.is_set():
            job = _job_of(control, name)
            if job is not None:
                words = f"job {job['id']} is {job['state']}: {job_words(job)}"
                stream.write(f"{CLEARED}{cut(printable(words), columns - 1)}")
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
