"""Processes that a measurement starts: their tree, their cores, how they end."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

PROC = Path("/proc")
FIRST_PORT = 20_000
"""First of the ports that servers of a measurement get; few well-known services are above."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on now.

    The system gives it to no client: a server may stop and start there while others connect.
    """
    ports = range(FIRST_PORT, first_port_of_clients())
    for port in random.SystemRandom().sample(ports, min(len(ports), 100)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def first_port_of_clients() -> int:
    """Return the first of the ports that the system gives to those who ask for any."""
    try:
        return int((PROC / "sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32768


def is_alive(pid: int) -> bool:
    """Tell whether a process is there that has not ended; one that nobody has waited for has."""
    try:
        # The command may hold spaces and brackets: the fields are counted from its closing bracket.
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _parents() -> dict[int, int]:
    """Return the parent of every process; processes that vanish meanwhile are left out."""
    parents = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The command may hold spaces and brackets: the fields are counted from its closing bracket.
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return parents


def tree(root: int) -> list[int]:
    """Return the process and all its descendants."""
    parents = _parents()
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def resident_mib(pids: list[int]) -> float:
    """Return the memory that these processes have in use now, in MiB (resident set); they are all running."""
    pages = sum(int((PROC / str(pid) / "statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def pin(pid: int, cores: set[int]) -> None:
    """Let every thread of the process tree run on these cores only."""
    for process in tree(pid):
        with contextlib.suppress(OSError):  # a thread that has just ended
            for task in (PROC / str(process) / "task").iterdir():
                os.sched_setaffinity(int(task.name), cores)


def busy_seconds() -> float:
    """Return the processor time that the machine has spent on anything, over all cores, since it started."""
    user, nice, system, _idle, _wait, irq, softirq, steal = (PROC / "stat").read_text().split()[1:9]
    ticks = sum(map(int, (user, nice, system, irq, softirq, steal)))
    return ticks / os.sysconf("SC_CLK_TCK")


def stop(process: subprocess.Popen[str], patience: float = 15.0) -> None:
    """Ask the process to end, and after `patience` seconds kill everything that it has started."""
    children = tree(process.pid)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + patience
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    while time.monotonic() < deadline and any((PROC / str(pid)).exists() for pid in children):
        time.sleep(0.05)  # grandchildren cannot be waited for
    for pid in children:
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == process.pid:  # the number may belong to somebody else by now
                os.kill(pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
