"""Blocking of every client library: a full queue, a wait, and then an empty queue.

All libraries run at once, each in a process of its own with a queue of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import IO, Any, Final

from penstock import sync
from penstock.client.bench.survivors import AFTER, LIBRARIES, Library
from penstock.client.bench.target import Target

CAPACITY: Final = 4
"""Messages that fit into a queue."""
START_S: Final = 30.0
"""Seconds in which a library must have connected."""
AFTER_S: Final = 10.0
"""Seconds in which a library must have sent after the release."""
QUIET_S: Final = 0.5
"""Seconds without a message after which a queue is empty."""


class Survivor:
    """Process of a library, with its reports."""

    def __init__(self, library: Library, process: subprocess.Popen[str]) -> None:
        self.library = library
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.came: list[int] = []
        """Numbers consumed from the queue."""
        self._changed = threading.Condition()
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            with self._changed:
                self.lines.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self.lines.append({"ended": True})
            self._changed.notify_all()

    def close(self) -> None:
        """End the process, and close its pipes."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()

    def wait_for(self, name: str, timeout: float) -> bool:
        """Wait until the library has reported this name, or has ended; return whether it has reported it."""
        with self._changed:
            self._changed.wait_for(lambda: any(name in line or "ended" in line for line in self.lines), timeout)
            return any(name in line for line in self.lines)

    def wait_for_number(self, number: int, timeout: float) -> None:
        """Wait until the outcome of a number is reported, or the library has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.outcome(number) is not None or "ended" in self.lines[-1], timeout)

    def go_on(self) -> None:
        """Let the library continue with its next part."""
        assert self.process.stdin is not None
        with suppress(OSError):  # The library may have ended: its reports show that.
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def outcome(self, number: int) -> dict[str, Any] | None:
        """Return the outcome of a number; None while it is open."""
        return next((line for line in self.lines if line.get("number") == number and "seconds" in line), None)

    def row(self) -> dict[str, object]:
        """Return the survivor as a row of the table."""
        begun = [line["number"] for line in self.lines if "begun" in line and line["number"] != AFTER]
        outcomes = {number: self.outcome(number) for number in begun}
        failed = {number: found for number, found in outcomes.items() if found is not None and "error" in found}
        hanging = [number for number, found in outcomes.items() if found is None]
        errors = list(dict.fromkeys(str(found["error"]) for found in failed.values()))
        unsure = [number for number in failed if number in self.came]
        lost = [n for n, found in outcomes.items() if found and "error" not in found and n not in self.came]
        waited = [found["seconds"] for found in outcomes.values() if found is not None]
        after = self.outcome(AFTER)
        usable = "no answer" if after is None else after.get("error", "yes")
        return {
            "case": self.library.name,
            "sent": len(begun) - len(failed) - len(hanging),
            "failed": len(failed),
            "told": "; then ".join(errors) or ("nothing: it waits" if hanging else None),
            "longest wait s": round(max(waited), 1) if waited else None,
            "failed but came": f"{len(unsure)} of {len(failed)}" if failed else None,
            "lost": len(lost),
            "usable after": usable,
        }


def survive(target: Target, hold_s: float, timeout: float, say: Callable[[str], None]) -> list[dict[str, object]]:
    """Block every library for `hold_s` seconds; each send has this time-out, if the library has one."""
    rows: dict[str, dict[str, object]] = {}
    with ExitStack() as stack:
        survivors: dict[str, Survivor] = {}
        for library in LIBRARIES:
            if find_spec(library.package) is None:
                rows[library.name] = {"case": library.name, "told": f"not installed: pip install {library.package}"}
                continue
            queue = stack.enter_context(target.queue(**bounded(target, hold_s)))
            survivors[queue] = stack.enter_context(survivor(library, target.url, queue, timeout))
        for queue, each in list(survivors.items()):
            if not each.wait_for("ready", START_S):
                refusal = next((line["refused"] for line in each.lines if "refused" in line), "no answer")
                rows[each.library.name] = {"case": each.library.name, "told": f"cannot be used: {refusal}"}
                del survivors[queue]
        say(f"{len(survivors)} libraries send to full queues for {hold_s:g} s")
        for each in survivors.values():
            each.go_on()
        time.sleep(hold_s)  # The wait itself.
        say("the queues are emptied")
        _empty(target, survivors)
        for each in survivors.values():
            each.wait_for("waiting", AFTER_S)
            each.go_on()
        deadline = time.monotonic() + AFTER_S
        for each in survivors.values():
            each.wait_for_number(AFTER, max(0.0, deadline - time.monotonic()))
        _empty(target, survivors)
        for each in survivors.values():
            rows[each.library.name] = each.row()
    return [rows[library.name] for library in LIBRARIES]


def bounded(target: Target, hold_s: float) -> dict[str, Any]:
    """Return the settings of a queue that blocks its publishers longer than the run, or refuses them at its bound."""
    if target.is_penstock:
        return {"capacity_messages": CAPACITY, "hold_deadline": int(hold_s) + 60}
    return {"x_max_length": CAPACITY, "x_overflow": "reject-publish"}


@contextmanager
def survivor(library: Library, url: str, queue: str, timeout: float) -> Iterator[Survivor]:
    """Start the process of a library, and end it."""
    words = [sys.executable, "-m", "penstock.client.bench.survivors", library.name, url, queue, str(timeout)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    found = Survivor(library, process)
    try:
        yield found
    finally:
        found.close()


def _empty(target: Target, survivors: dict[str, Survivor]) -> None:
    """Consume all present and arriving messages of the queues."""
    with sync.connect(target.url) as connection:
        receivers = {queue: connection.receiver(queue) for queue in survivors}
        last = time.monotonic()
        while time.monotonic() - last < QUIET_S:
            connection.poll(QUIET_S / 10)
            for queue, receiver in receivers.items():
                while (delivery := receiver.receive_nowait()) is not None:
                    survivors[queue].came.append(int(delivery.body))
                    delivery.accept()
                    last = time.monotonic()
        for receiver in receivers.values():
            receiver.close()
