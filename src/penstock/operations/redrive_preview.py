"""Preview of a redrive: the reasons of dead letters, the queues to which they would go, and what happens there.

A preview places letters as a redrive does, and moves none. It looks at letters in memory, a bounded number of them, in
steps; those on the disk, and those beyond the bound, are counted.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import MANAGEMENT
from penstock.connections.control_request import ControlRequest
from penstock.core.publish.transfer import LEFT_KINDS_MOST, LOOKED_WORK, MOVED_WORK
from penstock.core.publish.transfer_source import TransferSource
from penstock.core.queue.queue import Queue
from penstock.describe.queue_state import state_row
from penstock.describe.table import Row, reading
from penstock.flow.level import UNLIMITED
from penstock.flow.progress import WorkProgress
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.management.operation import LOOKS, VHOST, Operation, Route
from penstock.operations.message_filter import UNKNOWN_REASON
from penstock.operations.transfers import FIELDS_OF, REDRIVE, Wanted
from penstock.texts import brief_age

EXAMINED_MOST: Final = 20_000
"""Most messages of one preview."""
TARGETS_MOST: Final = 100
"""Most target queues of an answer; messages for others are counted."""


class Preview:
    """Counts of one preview."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.examined_most: int = EXAMINED_MOST
        self.examined: int = 0
        self.unmatched: int = 0
        self.chosen: int = 0
        """Messages at the positions of the request; all without positions."""
        self.reasons: dict[str, int] = {}
        self.targets: dict[Queue, tuple[int, int]] = {}
        """Messages and bytes by target."""
        self.others: int = 0
        """Messages for targets beyond the bound."""
        self.left: dict[tuple[str, str], int] = {}
        """Messages that would stay, by reason and source."""

    def steps(self, node: Node) -> Steps[Row]:
        """Look at the letters."""
        wanted, work = self.wanted, node.broker.work
        source = TransferSource(node.broker, wanted.source, False, WorkProgress())
        if wanted.positions is not None:
            source.reach_only(min(wanted.positions), max(wanted.positions))
        targets = wanted.targets()
        ready, goes = int(wanted.source.waiting()), 0
        while self.examined < self.examined_most and goes < wanted.most and not wanted.source.deleted:
            source.check()
            message = source.next()
            if message is None:
                break
            source.pass_over(message)
            self.examined += 1
            positions = wanted.positions
            is_wanted = positions is None or int(message.sequence) in positions
            self.chosen += is_wanted
            if is_wanted and wanted.filter.matches(message):
                entries = node.broker.formats.find(message.content).death_entries(message.content)
                reason = str(entries[0]["reason"]) if entries else UNKNOWN_REASON
                if reason in self.reasons or len(self.reasons) < LEFT_KINDS_MOST:
                    self.reasons[reason] = self.reasons.get(reason, 0) + 1
                placement = targets.place(message)
                goes += 0 if placement.left else 1
                if placement.left:
                    self._leave(placement.left, placement.source)
                else:
                    self._go(placement.queues[0], int(placement.charge))
                work.done += MOVED_WORK
            else:
                self.unmatched += 1
            if work.spend(LOOKED_WORK + int(wanted.filter.work + wanted.filter.searched)):
                yield
        unread = max(ready - self.examined, 0) if goes < wanted.most else 0
        if wanted.positions is not None:
            pager = wanted.source.pager
            if self.examined < self.examined_most:
                unread = min(unread, 0 if pager is None else int(pager.messages))  # The others are gone.
            unread = min(unread, len(wanted.positions) - self.chosen)
        return self._row(node, unread)

    def _go(self, queue: Queue, charge: int) -> None:
        if queue not in self.targets and len(self.targets) >= TARGETS_MOST:
            self.others += 1
            return
        messages, size = self.targets.get(queue, (0, 0))
        self.targets[queue] = (messages + 1, size + charge)

    def _leave(self, reason: str, source: str) -> None:
        key = (reason, source)
        if key in self.left or len(self.left) < LEFT_KINDS_MOST:
            self.left[key] = self.left.get(key, 0) + 1

    def _row(self, node: Node, unread: int) -> Row:
        targets: list[Row] = []
        for queue, (messages, size) in self.targets.items():
            state = state_row(queue, reading(node))
            ahead = queue.gate.in_line()
            targets.append(
                {
                    "queue": queue.name,
                    "messages": messages,
                    "bytes": size,
                    "ahead": ahead,
                    "state": state,
                    "text": _happens(queue, messages, size, state, ahead, node.broker.now),
                }
            )
        return {
            "queue": self.wanted.source.name,
            "reasons": self.reasons,
            "targets": targets,
            "others": self.others,
            "left": [
                {"reason": reason, "queue": source or None, "messages": count}
                for (reason, source), count in self.left.items()
            ],
            "unmatched": self.unmatched,
            "examined": self.examined,
            "unread": unread,
        }


def _happens(queue: Queue, messages: int, size: int, state: Row, ahead: int, now: float) -> str:
    """Return what happens to messages in a target queue, in a sentence without its subject."""
    behind = f"they wait in line behind {ahead:,}" if ahead else "they wait until it opens"
    since = queue.gate.stats.since
    if not queue.gate.open:
        return f"closed {brief_age(now - since)}: {behind}" if since is not None else behind
    text = str(state["text"])
    if state["held"] is not None:
        return f"{text}: {behind}"  # By another gate of its road, such as the operator's.
    if ahead:
        return behind
    room = _room(queue, messages, size)
    if room < messages:
        return f"room for {room:,} before its gate closes: the others wait"
    return "they go in at once" if text == "open" else f"they go in at once ({text})"


def _room(queue: Queue, messages: int, size: int) -> int:
    """Return how many of the messages fit before the gate closes."""
    stop, room = queue.thresholds.stop, messages
    if stop.messages != UNLIMITED:
        room = min(room, max(int(stop.messages - queue.messages) + 1, 0))
    if stop.bytes != UNLIMITED and size > 0:
        left = int(stop.bytes - stop.counted(queue.messages, queue.bytes))
        room = min(room, max(left * messages // size + 1, 0))
    return room


def preview(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer what a redrive with the same fields would do. Raises NotFound (404), AccessRefused (403)."""
    return Preview(Wanted(node, request, REDRIVE)).steps(node)


def _by_path(fields: Row) -> Row:
    return {**{name: value for name, value in fields.items() if name not in ("name", "vhost")}, "queue": fields["name"]}


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("queue.redrive-preview", preview, FIELDS_OF[REDRIVE], tag=MANAGEMENT, permissions=("read queue",),
              how=LOOKS, audited=False, asks=VHOST, routes=(
        Route("GET /penstock/queues/{vhost}/{name}/redrive", "Preview a redrive: reasons of the dead letters, and the "
              "queues to which they would go, with what happens there.",
              query=("filter", "key", "body", "reason", "positions"), many=("header",),
              read=_by_path),
    )),
)  # fmt: skip
