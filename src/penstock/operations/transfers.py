"""Transfers: jobs that move or copy messages of a queue, or redrive dead letters.

Each is about its source and its targets, so two transfers of one queue run one after the other. It takes what is in the
queue at its beginning: asked for again, it goes on with what is left. A target without room holds the job
(core/publish/transfer.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from penstock.access.permission import MANAGEMENT, READ, WRITE
from penstock.access.rules import DEFAULT_EXCHANGE, QUEUE
from penstock.connections.authorization import check_publish
from penstock.connections.control_request import ControlRequest, check_fields
from penstock.core.publish.transfer import LeftMessages, Transfer
from penstock.core.publish.transfer_source import TransferSource
from penstock.core.publish.transfer_targets import ToExchange, ToNowhere, ToQueue, ToSources, TransferTargets
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import QUEUE as TO_QUEUE
from penstock.core.routing.route import Route
from penstock.core.vhost import VirtualHost
from penstock.describe.table import Row
from penstock.errors import AccessRefused, BrokerError, PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.work import Steps
from penstock.management.jobs import Job, Subject
from penstock.management.node import Node
from penstock.management.operation import DETACH, VHOST, Operation
from penstock.management.operation import Route as Path
from penstock.operations.message_filter import FIELDS as CHOICES
from penstock.operations.message_filter import chooses, chosen_messages, chosen_positions
from penstock.operations.topology import short
from penstock.settings.kind import whole

TARGETS_CLAIMED: Final = 50
"""Most targets that a transfer claims; other jobs about further ones run beside it."""
LOOKED_QUEUES_MOST: Final = 10_000
"""Most queues of a virtual host that a redrive looks at for the queues whose dead letters reach its source."""
LOOKED_A_UNIT: Final = 16
"""Queues that are looked at with one unit of work."""
MESSAGES: Final = "messages"
RATE: Final = whole(1, 1_000_000)
"""Kind of a limit of messages a second."""


class Wanted:
    """A transfer as it was asked for, checked against the present queues and the rights of its requester."""

    def __init__(self, node: Node, request: ControlRequest, verb: str) -> None:
        known = (*FIELDS_OF[verb], DETACH)
        check_fields(OF_VERB[verb], known, request.fields)  # Over HTTP too.
        self.request = request
        self.vhost: VirtualHost = request.vhost
        self.source: Queue = self.vhost.queue(request.text("queue"), request.connection)
        request.access.check(READ, QUEUE, self.source.name)
        self.most = _count(request)
        self.filter = chosen_messages(node, request)
        self.positions = chosen_positions(request, self.source)
        self.rate = _rate(request)
        self.target: Queue | None = None
        """The one target queue; None for an exchange, and for the sources of dead letters."""
        self.route: Route | None = None
        self.deletes: bool = verb == DELETE
        if self.deletes and self.positions is None and not chooses(request):
            named = f"give 'positions' or one of {', '.join(CHOICES)}"
            raise PreconditionFailed(f"{named}: to drop all messages of queue '{self.source.name}', purge it")
        if verb in (MOVE, COPY):
            self._find_target(verb)
        if verb != COPY and (self.source.cursors or self.source.features.type.retains):
            TransferSource(self.vhost.broker, self.source, True, request.progress).check()

    def _find_target(self, verb: str) -> None:
        request = self.request
        name, exchange = request.fields.get("target"), request.fields.get("exchange")
        if (name is None) == (exchange is None):
            given = "both are given" if name is not None else "none is given"
            raise PreconditionFailed(f"name either 'target', a queue, or 'exchange' with 'routing_key': {given}")
        if name is not None:
            self.target = self.vhost.queue(request.text("target"), request.connection)
            if self.target is self.source:
                raise PreconditionFailed(f"queue '{self.source.name}' cannot be {MOVED[verb]} onto itself")
            request.access.check(WRITE, QUEUE, self.target.name)
            return
        named = request.text("exchange")
        named = "" if named == DEFAULT_EXCHANGE else named
        key = short(request.text("routing_key", ""), "a routing key")
        check_publish(request.access, self.vhost, named, key)
        self.route = self.vhost.route(named, key, False)
        self.targets().check()
        if self.source in self.route.queues:
            back = f"exchange '{named}' with routing key '{key}' leads back to queue '{self.source.name}'"
            raise PreconditionFailed(f"queue '{self.source.name}' cannot be {MOVED[verb]} onto itself: {back}")

    def targets(self) -> TransferTargets:
        """Return the targets of the transfer."""
        formats, source = self.vhost.broker.formats, self.source
        if self.target is not None:
            return ToQueue(self.target)
        if self.deletes:
            return ToNowhere()
        if self.route is not None:
            return ToExchange(self.vhost, formats, source, self.route)
        trusts, forgets = self.request.flag("trust_headers"), self.request.flag("forget_deaths")
        return ToSources(self.vhost, formats, source, trusts, self._refusal(), forgets)

    def subjects(self) -> tuple[Subject, ...]:
        """Return the source, and the targets as far as they are known."""
        queues = [self.source]
        if self.target is not None:
            queues.append(self.target)
        elif self.route is not None:
            queues += self.route.queues[:TARGETS_CLAIMED]
        elif not self.deletes:
            queues += _dying_into(self.vhost, self.source)
        return tuple(Subject("queue", queue.name, self.vhost.name) for queue in queues)

    def _refusal(self) -> Callable[[str], str]:
        access = self.request.access

        def refusal(queue: str) -> str:
            try:
                access.check(WRITE, QUEUE, queue)
            except AccessRefused as error:
                return str(error)
            return ""

        return refusal


def _count(request: ControlRequest) -> int:
    most = request.amount("count", int(UNLIMITED))
    if most == 0:
        raise PreconditionFailed("'count' must be at least 1; without it all messages are taken")
    return most


def _rate(request: ControlRequest) -> int:
    """Return the most messages a second; 0 for no limit. Raises PreconditionFailed (406)."""
    given = request.fields.get("rate")
    if given is None:
        return 0
    found: object = RATE.parse(given)
    if not isinstance(found, int):
        raise PreconditionFailed(RATE.fault("'rate'", given))
    return found


def _dying_into(vhost: VirtualHost, source: Queue) -> list[Queue]:
    """Return queues whose dead letters may be in a queue, by their dead-letter exchanges and its bindings."""
    exchanges = {binding.source.name for binding in vhost.bindings.to(TO_QUEUE, source.name)}
    found: list[Queue] = []
    vhost.broker.work.done += min(len(vhost.queues), LOOKED_QUEUES_MOST) // LOOKED_A_UNIT
    for queue in islice(vhost.queues.values(), LOOKED_QUEUES_MOST):
        exchange, key = queue.settings.dead_letter_exchange, queue.settings.dead_letter_routing_key
        if queue is source or exchange is None:
            continue
        if exchange in exchanges or (exchange == "" and (queue.name if key is None else key) == source.name):
            found.append(queue)
            if len(found) == TARGETS_CLAIMED:
                break
    return found


def _transfer(node: Node, request: ControlRequest, verb: str) -> Steps[Row]:
    """Move, copy or redrive; return the counts. Raises an error with the counts if it ends before."""
    wanted = Wanted(node, request, verb)
    broker, progress = node.broker, request.progress
    source = TransferSource(broker, wanted.source, verb != COPY, progress)
    number = progress.number if isinstance(progress, Job) else 0
    name = f"vh({wanted.vhost.name})/qu({wanted.source.name})/{verb} of job {number}"
    transfer = Transfer(broker, name, source, wanted.targets(), wanted.filter, wanted.most)
    if wanted.positions is not None:
        transfer.choose(wanted.positions)
    if wanted.rate:
        transfer.limit_rate(wanted.rate)
    if isinstance(progress, Job):
        transfer.writes = progress.writes
    ready = int(wanted.source.waiting())
    looked_at = ready if wanted.positions is None else len(wanted.positions)
    progress.count_all(looked_at if chooses(request) else min(looked_at, wanted.most), MESSAGES)
    try:
        yield from transfer.steps()
    except BrokerError as error:
        left = f"{sum(int(kind.messages) for kind in transfer.left.values()):,} are left"
        error.args = (f"{error}; {int(transfer.moved):,} of {ready:,} messages are {MOVED[verb]}, and {left}",)
        raise
    if transfer.moved > 0 and broker.journal is not None:
        broker.journal.require_flush()  # The answer waits for the disk.
    return _result(wanted, transfer, verb)


def start_move(node: Node, request: ControlRequest) -> None:
    """Start a move for which nobody waits, as a job. Raises the errors of a move that cannot begin."""
    job = node.jobs.add("queue.move", request.access, request.asker(), Wanted(node, request, MOVE).subjects())
    request.progress = job
    node.start_job(job, _unattended(node.jobs.carried_out(job, _transfer(node, request, MOVE))))


def _unattended(steps: Steps[Row]) -> Steps[None]:
    """Carry out a job whose result is in its row only."""
    try:
        yield from steps
    except BrokerError:
        return


def _result(wanted: Wanted, transfer: Transfer, verb: str) -> Row:
    """Return the counts of a transfer: what has passed, what stays and why."""
    why = [_left_row(kind) for kind in transfer.left.values()]
    unread = int(transfer.source.unread())
    if unread and transfer.moved < wanted.most and wanted.positions is None:
        reason = (
            f"they are on the disk, and messages that stay fill the memory of queue '{wanted.source.name}'; consume "
            "these or raise the capacity, and move again; a copy with the same filter reads all"
        )
        why.append({"reason": reason, "queue": None, "messages": unread})
    return {
        "queue": wanted.source.name,
        "target": transfer.targets.describe(),
        MOVED[verb]: int(transfer.moved),
        "bytes": int(transfer.moved_bytes),
        "unmatched": int(transfer.unmatched),
        **_missing(wanted, transfer),
        "left": sum(int(str(kind["messages"])) for kind in why),
        "why": why,
    }


def _missing(wanted: Wanted, transfer: Transfer) -> Row:
    """Return how many of the wanted positions had no ready message, if all could be looked at."""
    if wanted.positions is None:
        return {}
    found = int(transfer.moved) + int(transfer.unmatched) + sum(int(kind.messages) for kind in transfer.left.values())
    return {"missing": max(min(len(wanted.positions), int(wanted.most)) - found, 0)}


def _left_row(kind: LeftMessages) -> Row:
    return {"reason": kind.reason, "queue": kind.source or None, "messages": int(kind.messages)}


MOVE: Final = "move"
COPY: Final = "copy"
REDRIVE: Final = "redrive"
DELETE: Final = "delete"
MOVED: Final[dict[str, str]] = {MOVE: "moved", COPY: "copied", REDRIVE: "redriven", DELETE: "deleted"}
"""Participles of the verbs; also the names of the count in an answer."""
CHOSEN: Final[tuple[str, ...]] = ("count", *CHOICES, "positions")
TRANSFER: Final[tuple[str, ...]] = ("queue", "target", "exchange", "routing_key", *CHOSEN, "rate")
BACK: Final[tuple[str, ...]] = ("queue", *CHOSEN, "rate", "trust_headers", "forget_deaths")
GONE: Final[tuple[str, ...]] = ("queue", *CHOSEN)
FIELDS_OF: Final[dict[str, tuple[str, ...]]] = {MOVE: TRANSFER, COPY: TRANSFER, REDRIVE: BACK, DELETE: GONE}
OF_VERB: Final[dict[str, str]] = {
    MOVE: "queue.move", COPY: "queue.copy", REDRIVE: "queue.redrive", DELETE: "messages.delete",
}  # fmt: skip
"""Fields and operations of the verbs."""


def _by_path(fields: Row) -> Row:
    named = {name: value for name, value in fields.items() if name not in ("name", "vhost", DETACH)}
    return {**named, "queue": fields["name"]}


def _operation(
    name: str, fields: tuple[str, ...], permissions: tuple[str, ...], purpose: str, path: str = ""
) -> Operation:
    verb = name.rpartition(".")[2]
    where = f"POST /penstock/queues/{{vhost}}/{{name}}/{path or verb}"
    return Operation(
        name, lambda node, request: _transfer(node, request, verb), fields, tag=MANAGEMENT,
        permissions=permissions, job=lambda node, request: Wanted(node, request, verb).subjects(), asks=VHOST,
        routes=(Path(where, purpose, read=_by_path),),
    )  # fmt: skip


_PUBLISH: Final[tuple[str, ...]] = ("read queue", "write exchange", "write topic")
"""Permissions for a transfer to an exchange; one to a queue needs read, and write to the target queue."""
OPERATIONS: Final[tuple[Operation, ...]] = (
    _operation("queue.move", TRANSFER, _PUBLISH, "Move messages into the queue `target`, or publish them to "
               "`exchange`; with `count` the first ones, with `filter` those that a selector matches. A queue as "
               "target needs write to that queue."),
    _operation("queue.copy", TRANSFER, _PUBLISH, "Copy messages, as a move does; they stay in their queue."),
    _operation("queue.redrive", BACK, ("read queue",), "Move dead letters back into the queues in which "
               "they died last, which needs write to these; those without such a queue stay, and are counted."),
    _operation("messages.delete", GONE, ("read queue",), "Delete ready messages at `positions`, or those that a "
               "condition chooses, without dead letters.", "messages/delete"),
)  # fmt: skip
