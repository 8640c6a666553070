"""Folder of a spool: its lock, its owner, and its settled position.

Beside the segments it has ``lock`` with the holding process, and ``spool.json`` with the spool's id and owner.
``position.json`` has the last numbers that are settled, and that may be acknowledged; `AcknowledgedFile` describes the
remaining file.
"""

import fcntl
import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark_amqp.spool.errors import SpoolError, raise_if_full

VERSION: Final = 1
ALL: Final = 2**63 - 1
"""Position of a spool whose messages are acknowledged as soon as they are stored."""
PAUSE_SECONDS: Final = 0.1
"""Seconds between two attempts to get the lock."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of the messages in a spool; `broker` is the name of the cluster, None if unknown."""

    servers: tuple[str, ...]
    vhost: str
    queues: tuple[str, ...]
    broker: str | None = None

    def check(self, asked: "Owner", folder: Path) -> None:
        """Raise `SpoolError` for another broker, virtual host or queue; an unknown broker passes."""
        if self.vhost != asked.vhost:
            difference = f"virtual host '{self.vhost}', not '{asked.vhost}'"
        elif not set(self.queues) & set(asked.queues):
            difference = f"{_named(self.queues)}, not {_named(asked.queues)}"
        elif self.broker is not None and asked.broker is not None and self.broker != asked.broker:
            difference = f"the broker '{self.broker}', not '{asked.broker}'"
        elif None in (self.broker, asked.broker) and not set(self.servers) & set(asked.servers):
            difference = f"the broker at {', '.join(self.servers)}, not at {', '.join(asked.servers)}"
        else:
            return
        raise SpoolError(
            "foreign", f"the spool {folder} has messages of {difference}: give option spool another folder"
        )


def _named(queues: tuple[str, ...]) -> str:
    return "the queue" + ("s " if len(queues) > 1 else " ") + ", ".join(f"'{queue}'" for queue in queues)


class SpoolFolder:
    """Folder that one process holds at a time, from `lock` to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = ""
        self.owner: Owner | None = None
        self.settled = 0
        self.acknowledged = 0
        """Number up to which messages may have been acknowledged; later messages were not."""
        self._lock: int | None = None

    def lock(self, seconds: float) -> None:
        """Create the folder and take its lock, trying for some seconds: an ending process needs a moment.

        Raises `SpoolError` with the holder, or with the file system's refusal.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            deadline = time.monotonic() + seconds
            while not _locked(self._lock):
                if time.monotonic() >= deadline:
                    raise SpoolError("held", f"the spool {self.path} is in use by {self._holder()}")
                time.sleep(PAUSE_SECONDS)
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now(UTC):%FT%TZ}"}
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, json.dumps(holder).encode(), 0)
        except OSError as error:
            raise SpoolError(
                "folder", f"the spool {self.path} cannot be used: {error.strerror}; option spool takes a local folder"
            ) from error

    def _holder(self) -> str:
        assert self._lock is not None
        try:
            found = json.loads(os.pread(self._lock, 4096, 0))
            who = f"process {found['pid']} on {found['host']}, since {found['since']}"
        except (ValueError, KeyError, TypeError):
            who = "another process"
        return f"{who}: one live query to a spool; stop that one, or give option spool another folder"

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def open(self, asked: Owner) -> None:
        """Read the files, or begin a spool. Raises `SpoolError` if it has messages of another owner."""
        found = self._read("spool.json")
        if not found:
            self.id = uuid.uuid4().hex
            self._write_owner(asked)
            return
        try:
            if found["version"] != VERSION:
                raise SpoolError("version", f"the spool {self.path} was written by another version of this package")
            self.id = str(found["id"])
            named = {name: found["owner"][name] for name in ("servers", "vhost", "queues", "broker")}
            self.owner = Owner(tuple(named["servers"]), named["vhost"], tuple(named["queues"]), named["broker"])
            position = self._read("position.json") or {"settled": 0, "acknowledged": 0}
            self.settled, self.acknowledged = int(position["settled"]), int(position["acknowledged"])
        except (KeyError, TypeError, ValueError) as error:
            raise SpoolError("damaged", f"spool.json or position.json in {self.path} is damaged: {error!r}") from error
        if len(self.id) != 32:
            raise SpoolError("damaged", f"spool.json in {self.path} is damaged: its id has not 32 letters")
        # The broker's name is known after its answer; until then its address does not count.
        self.owner.check(replace(asked, servers=self.owner.servers), self.path)

    def claim(self, asked: Owner, empty: bool) -> None:
        """Record the owner of the messages, which the broker has named by now; an empty spool may change its owner.

        Raises `SpoolError` if the spool has messages of another owner, `DiskFull` if it cannot be written.
        """
        if self.owner is not None and not empty:
            self.owner.check(asked, self.path)
        if self.owner != asked:
            self._write_owner(asked)

    def _write_owner(self, owner: Owner) -> None:
        self._write("spool.json", {"version": VERSION, "id": self.id, "owner": asdict(owner)})
        self.owner = owner

    def write_position(self, settled: int, acknowledged: int) -> None:
        """Store both positions, if one has changed. Raises `DiskFull`; the old positions are kept then."""
        if (settled, acknowledged) != (self.settled, self.acknowledged):
            self._write("position.json", {"settled": settled, "acknowledged": acknowledged})
            self.settled, self.acknowledged = settled, acknowledged

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise SpoolError("damaged", f"{name} in the spool {self.path} cannot be read: {error}") from error
        return found if isinstance(found, dict) else {}

    def _write(self, name: str, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        _guarded(lambda: replace_file(self.path / name, data), self.path)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _guarded(write: Callable[[], None], path: Path) -> None:
    try:
        write()
    except OSError as error:
        raise_if_full(error, path)
        raise SpoolError("folder", f"the spool {path} cannot be written: {error.strerror}") from error


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that either the old or the new one is there after a crash."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
