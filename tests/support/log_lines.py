"""Lines of a broker's log that nobody has written yet."""

from __future__ import annotations

from penstock.driver.log_queue import LogQueue


def texts(queue: LogQueue, within: str = "") -> list[str]:
    """Take all lines; return the texts of those that have this within."""
    return [line.text for line in queue.take() if within in line.text]
