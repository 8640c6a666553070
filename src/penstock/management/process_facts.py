"""Facts about the process of a broker that only the server can read: an interface that the server implements."""

from __future__ import annotations

from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from penstock.flow.wait import Wait


class ProcessSample(NamedTuple):
    """Figures of the process whose reading may block; the server reads them in a thread."""

    open_files: int = 0
    files_max: int = 0
    """Limit of open files and sockets."""
    memory_used: int = 0
    """Resident memory in bytes."""
    memory_max: int = 0
    """Memory in bytes that the process may have; 0 if unknown."""
    threads: int = 0
    processors: int = 1


NO_SAMPLE: Final[ProcessSample] = ProcessSample()


@mypyc_attr(allow_interpreted_subclasses=True)
class ProcessFacts:
    """Facts about the process; this class implements a broker without a server."""

    def __init__(self) -> None:
        self.pid: int = 0
        self.python: str = ""
        """Version of Python."""
        self.listeners: list[tuple[str, str, int]] = []
        """Listeners: protocol (amqp, http), host and port."""
        self.last: ProcessSample = NO_SAMPLE
        """Sample at the end of the last wait of `sample`."""

    def uptime_s(self) -> float:
        """Return the seconds since the start."""
        return 0.0

    def sockets(self) -> int:
        """Return the number of open sockets of AMQP."""
        return 0

    def obstacle(self) -> str:
        """Return the reason why no clients are served; empty while clients are served."""
        return ""

    def logins_elsewhere(self) -> tuple[int, int]:
        """Return the numbers of accepted and refused logins at other brokers of the process."""
        return 0, 0

    def sample(self) -> Wait:
        """Read a new sample; at the end of the wait, `last` is the new sample."""
        wait = Wait()
        wait.end()
        return wait
