"""A PostgreSQL server of our own: a cluster in a folder of its own, as Debian's package has the programs.

The system's service is not touched. PostgreSQL does not run as root, so there it runs as the package's user, or nobody.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg

from bench import processes
from bench.brokers import COMPILED, RABBITMQ, SQLITE, STARTERS, Broker, PenstockNode, Starters, start_node
from bench.loadgen import LoadError

PATIENCE_S = 60
"""For the server to start or to stop, and for an answer of it."""
ROOM = 1 << 30
"""Bytes; a server takes about 40 MiB, and what is written to it."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "max_wal_size": "64MB",
    "autovacuum_naptime": "1d",  # What is seen is what was done here.
    "restart_after_crash": "on",
}
AS_SHIPPED = {"listen_addresses": "127.0.0.1"}
"""For measurements: all else is PostgreSQL's default."""
RULES = """
local all all trust
host all locked 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


class PostgresError(Exception):
    """A program of PostgreSQL failed; the text has what it said."""


def _find_programs() -> Path | None:
    """Return the folder with initdb and pg_ctl, of the newest version; Debian has them in nobody's path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    found = shutil.which("initdb")
    return debian[-1].parent if debian else (Path(found).parent if found else None)


PROGRAMS = _find_programs()
NOT_INSTALLED = "PostgreSQL is not installed (Debian: apt-get install postgresql)"


class Cluster:
    """A server that may be started and stopped again and again, on one port and one socket."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = processes.free_port()
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync",
                  "--data-checksums")  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
            file.write(f"port = {self.port}\nunix_socket_directories = '{folder}'\n")
        (self.data / "pg_hba.conf").write_text(RULES)

    def start(self) -> None:
        """Start it; raises PostgresError if it is not ready in time."""
        self._run("pg_ctl", "--wait", f"--timeout={PATIENCE_S}", f"--log={self.folder / 'log'}", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends sessions, `immediate` is a crash."""
        self._run("pg_ctl", "--wait", f"--timeout={PATIENCE_S}", f"--mode={mode}", "stop")

    def kill(self) -> None:
        """Kill it with all its processes (kill -9), and wait until none of them is left."""
        children = self._signal_all(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while any(map(processes.is_alive, children)):
            if time.monotonic() > deadline:
                raise PostgresError(f"PostgreSQL's processes {children} outlive a SIGKILL by {PATIENCE_S} s")
            time.sleep(0.002)  # processes that are no children of ours cannot be waited for
        # Where nobody has waited for the dead process, the next server would take it for one that runs.
        for lock in (self.data / "postmaster.pid", self.folder / f".s.PGSQL.{self.port}.lock"):
            lock.unlink(missing_ok=True)

    def pause(self) -> None:
        """Have all its processes stand still: connections are taken by the system, and nobody answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Have them go on."""
        self._signal_all(signal.SIGCONT)

    def pids(self) -> list[int]:
        """Return its processes; empty if it does not run."""
        pid = self._pid()
        return [] if pid is None else processes.tree(pid)

    def is_running(self) -> bool:
        """Tell whether it runs."""
        return self._pid() is not None

    def url(self, database: str = "postgres", user: str = "postgres", tcp: bool = False, **parameters: str) -> str:
        """Return the URL of a database: over the socket, or over TCP."""
        if tcp:
            return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?{urlencode(parameters)}"
        query = urlencode({"host": str(self.folder), "port": str(self.port), **parameters})
        return f"postgresql://{quote(user)}@/{database}?{query}"

    def ask(self, question: str, *parameters: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Ask as the administrator, in a session of its own."""
        patience = f"-c statement_timeout={PATIENCE_S}s"
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=10, options=patience) as connection:
            cursor = connection.execute(question.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def dump(self, database: str, to: Path) -> None:
        """Write a database as it is now into a file, for pg_restore."""
        self._program("pg_dump", f"--dbname={self.url(database)}", "--format=custom", f"--file={self.folder / 'dump'}")
        shutil.move(self.folder / "dump", to)

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to one process of the server."""
        os.kill(pid, number)

    def _signal_all(self, number: int) -> list[int]:
        """Send a signal to all its processes, and return which those are."""
        children = self.pids()
        for child in children:
            with suppress(ProcessLookupError):  # it ends with its parent
                os.kill(child, number)
        return children

    def _pid(self) -> int | None:
        """Return the process of the server; None if it does not run."""
        with suppress(FileNotFoundError):
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            return pid if processes.is_alive(pid) else None
        return None

    def _run(self, program: str, *words: str) -> None:
        self._program(program, f"--pgdata={self.data}", *words)

    def _program(self, program: str, *words: str) -> None:
        if PROGRAMS is None:
            raise PostgresError(f"{NOT_INSTALLED}.")
        told = program != "pg_ctl"  # The server would inherit the pipe and keep it open.
        done = subprocess.run(
            [str(PROGRAMS / program), *words], cwd=self.folder, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if told else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if told else None, timeout=2 * PATIENCE_S, **self._as,
        )  # fmt: skip
        log = self.folder / "log"
        if done.returncode:
            raise PostgresError(f"{program}: {done.stdout or ''} {log.read_text() if log.exists() else ''}")


def memory() -> Path | None:
    """Return a folder in memory with room for a server; None where there is none."""
    folder = Path("/dev/shm")
    has_room = os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM
    return folder if has_room else None


@contextmanager
def cluster(below: Path | None = None, settings: Mapping[str, str] = SETTINGS) -> Iterator[Cluster]:
    """Run a server for as long as the context lasts, in a folder below this one or where temporary files are.

    Raises PostgresError.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-", dir=below))  # Not below one that is closed to other users.
    try:
        server = Cluster(folder, settings)
        try:
            server.start()
            yield server
        finally:
            if server.is_running():
                server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def starters(below: Path, stack: ExitStack) -> Starters:
    """Return how brokers are started whose stores are compared. Raises LoadError without a server.

    Ours has its store in a server that runs below this folder until the stack unwinds, and beside it is ours with
    SQLite.
    """
    try:
        server = stack.enter_context(cluster(below, AS_SHIPPED))
    except PostgresError as reason:
        raise LoadError(str(reason)) from reason
    version = server.ask("SHOW server_version")[0][0].partition(" ")[0]

    def on_postgresql(name: str, folder: Path) -> Broker:
        broker = start_node(name, PenstockNode(name, folder, server.url(tcp=True)))
        return replace(broker, title=f"{broker.title} with PostgreSQL {version}", server=server.pids)

    def on_sqlite(name: str, folder: Path) -> Broker:
        broker = STARTERS[COMPILED](COMPILED, folder)
        return replace(broker, name=name, title=f"{broker.title} with SQLite")

    return {COMPILED: on_postgresql, SQLITE: on_sqlite, RABBITMQ: STARTERS[RABBITMQ]}
