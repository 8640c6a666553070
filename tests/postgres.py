"""A PostgreSQL server for tests: a cluster of its own in a folder of its own, as Debian's package has the programs.

The system's service is not touched. PostgreSQL does not run as root, so there it runs as the package's user, or nobody.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest

from bench.processes import free_port
from tests.brokers import eventually

PATIENCE_S = 60
"""For the server to start or to stop."""
ROOM = 1 << 30
"""Bytes; a server takes about 40 MiB, and what is written to it."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "max_wal_size": "64MB",
    "autovacuum_naptime": "1d",  # What a test sees is what it has done.
    "restart_after_crash": "on",
}
RULES = """
local all all trust
host all locked 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


def _find_programs() -> Path | None:
    """Return the folder with initdb and pg_ctl, of the newest version; Debian has them in nobody's path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    found = shutil.which("initdb")
    return debian[-1].parent if debian else (Path(found).parent if found else None)


PROGRAMS = _find_programs()
needs_postgres = pytest.mark.skipif(
    PROGRAMS is None, reason="PostgreSQL is not installed (Debian: apt-get install postgresql)"
)


class Cluster:
    """A server that may be started and stopped again and again, on one port and one socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync",
                  "--data-checksums")  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
            settings.write(f"port = {self.port}\nunix_socket_directories = '{folder}'\n")
        (self.data / "pg_hba.conf").write_text(RULES)

    def start(self) -> None:
        self._run("pg_ctl", "--wait", f"--timeout={PATIENCE_S}", f"--log={self.folder / 'log'}", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends sessions, `immediate` is a crash."""
        self._run("pg_ctl", "--wait", f"--timeout={PATIENCE_S}", f"--mode={mode}", "stop")

    def pause(self) -> None:
        """Have all its processes stand still: connections are taken by the system, and nobody answers."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self._processes():
            os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill all its processes, also those that stand still; it can be started again."""
        processes = self._processes()
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: not any(map(_is_running, processes)), "its processes are gone")
        for file in (self.data / "postmaster.pid", self.folder / f".s.PGSQL.{self.port}.lock"):
            file.unlink()  # Who finds them looks whether there is such a process, and a dead one may still be there.

    def _processes(self) -> list[int]:
        """Return the number of the first process, and of all that it has made."""
        first = int((self.data / "postmaster.pid").read_text().split("\n")[0])
        return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]

    def is_running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def url(self, database: str = "postgres", user: str = "postgres", tcp: bool = False, **parameters: str) -> str:
        """Return the URL of a database: over the socket, or over TCP."""
        if tcp:
            return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?{urlencode(parameters)}"
        query = urlencode({"host": str(self.folder), "port": str(self.port), **parameters})
        return f"postgresql://{quote(user)}@/{database}?{query}"

    def ask(self, question: str, *parameters: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Ask as the administrator, in a session of its own."""
        bounds = {"connect_timeout": "10", "options": f"-c statement_timeout={PATIENCE_S}s"}
        with psycopg.connect(self.url(database), autocommit=True, **bounds) as connection:
            cursor = connection.execute(question.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to one process of the server."""
        os.kill(pid, number)

    def _run(self, program: str, *words: str) -> None:
        assert PROGRAMS is not None
        done = subprocess.run(
            [str(PROGRAMS / program), f"--pgdata={self.data}", *words], cwd=self.folder, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program == "initdb" else None, timeout=2 * PATIENCE_S, **self._as,
        )  # fmt: skip
        log = self.folder / "log"
        assert done.returncode == 0, f"{program}: {done.stdout or ''} {log.read_text() if log.exists() else ''}"


def _memory() -> Path | None:
    """Return a folder in memory with room for a server: what is killed and never loses power needs no real disk."""
    memory = Path("/dev/shm")
    has_room = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM
    return memory if has_room else None


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "XZ"
    except OSError:
        return False


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run a server for as long as the context lasts."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-", dir=_memory()))  # Pytest's own is closed to other users.
    try:
        server = Cluster(folder)
        try:
            server.start()
            yield server
        finally:
            if server.is_running():
                server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def small_disk(server: Cluster) -> Iterator[Path]:
    """Mount a file system of 8 MiB in memory that the server may write; skip the test if this user may not."""
    folder = server.folder / "small"
    folder.mkdir(exist_ok=True)
    owner = folder.parent.stat()
    if not mount(folder, f"size=8m,uid={owner.st_uid},gid={owner.st_gid},mode=700"):
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(folder: Path, options: str) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
