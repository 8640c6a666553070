"""Control request: the requester, the reply address, the checked fields, and the interface for answers."""

from __future__ import annotations

import json
from typing import Any, Final

from mypy_extensions import mypyc_attr

from penstock.access.rules import ConnectionAccess
from penstock.connections.authorization import NO_ACCESS
from penstock.connections.connection import Connection
from penstock.core.broker import Broker
from penstock.core.large_bodies import LargeBody
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, NotFound, PreconditionFailed
from penstock.flow.progress import WorkProgress
from penstock.flow.work import Steps
from penstock.settings.kind import (
    BYTES,
    COUNT,
    FLAG,
    INVALID,
    MILLISECONDS,
    NAMES,
    NUMBER_MOST,
    OBJECT,
    TEXT,
    Kind,
    Strings,
    unknown_name,
)
from penstock.texts import printable, worded

REQUEST_OCTETS: Final = 256 * 1024
"""Most bytes of a request."""
IMPORT_OCTETS: Final = 8 * 1024 * 1024
"""Most bytes of a request with definitions, whose text has escaped quotes."""
BLOCK_OCTETS: Final = 16 * 1024 * 1024
"""Most bytes of a published block."""
IMPORT: Final = "definitions.import"
PUBLISH_BLOCK: Final = "publish.block"
"""Operations with bodies of their own."""
ANY_NAMES: Final = Strings(distinct=True)
SUBJECTS: Final = (
    "scope",
    "pattern",
    "name",
    "query",
    "user",
    "vhost",
    "cursor",
    "queue",
    "address",
    "connection",
    "exchange",
)
"""Fields that name objects."""


def octets_max(operation: str) -> int:
    """Return the most bytes of a request for an operation."""
    if operation == PUBLISH_BLOCK:
        return BLOCK_OCTETS
    return IMPORT_OCTETS if operation == IMPORT else REQUEST_OCTETS


@mypyc_attr(allow_interpreted_subclasses=True)
class AnswerReceiver:
    """Receiver of an answer that comes later, in the place of a reply queue."""

    def answered(self, answer: object) -> None:
        """Take the answer."""
        raise NotImplementedError

    def failed(self, error: BrokerError) -> None:
        """Take the error."""
        raise NotImplementedError


class ControlRequest:
    """Control request with the fields of the JSON object in its body.

    All readers raise PreconditionFailed (406) naming the field.
    """

    def __init__(
        self,
        vhost: VirtualHost | None,
        connection: Connection | None,
        reply_to: str | None = None,
        correlation_id: str | None = None,
        body: bytes = b"{}",
        access: ConnectionAccess | None = None,
    ) -> None:
        self._vhost = vhost
        self.access = _access_of(connection) if access is None else access
        """Rules of the requester in the virtual host."""
        self.connection = connection
        """Connection of the requester; None for HTTP."""
        self.remote: str = ""
        """Name of the requester's connection in another process of the node; empty for one here, and for HTTP."""
        self.peer: str = ""
        """Address of a requester without a connection: host and port; empty if unknown."""
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.receiver: AnswerReceiver | None = None
        """Receiver of a later answer, for a requester in another process; None for one with a reply queue."""
        self.fields = _parse(body)
        self.before: object = None
        """State before the operation, for the audit log; None without an audit record."""
        self.unread: bytes = b""
        """Body of a request that is parsed in steps."""
        self.progress = WorkProgress()
        """Progress of the job that carries it out; nobody reads it if there is no job."""

    @property
    def vhost(self) -> VirtualHost:
        """Virtual host of the request.

        Raises NotFound (404) if a path of HTTP names an absent virtual host, or none.
        """
        if self._vhost is None:
            raise NotFound(f"no vhost '{self.fields.get('vhost')}'")
        return self._vhost

    def is_over_http(self) -> bool:
        """Return whether the requester has no connection, in this process or another one."""
        return self.connection is None and not self.remote

    def begin_wait(self) -> None:
        """Pause reading from the requester's connection until the read from disk is done."""
        if self.connection is not None:
            self.connection.hold_input()

    def end_wait(self) -> None:
        """Resume reading from the requester's connection."""
        if self.connection is not None:
            self.connection.release_input()

    def read(self, body: bytes) -> None:
        """Take the fields of a body."""
        self.fields = _parse(body)

    def part(self, fields: dict[str, object]) -> ControlRequest:
        """Return a request with these fields, which are a nested object of this request."""
        request = ControlRequest(self._vhost, self.connection, self.reply_to, self.correlation_id, b"{}", self.access)
        request.fields = fields
        request.remote = self.remote
        return request

    def subject(self) -> str:
        """Return the name of the object of the request, for the audit log; empty without one."""
        subjects = [self.fields.get(name) for name in SUBJECTS]
        return " ".join(each for each in subjects if isinstance(each, str))

    def asker(self) -> str:
        """Return the requester's name, for texts."""
        if self.connection is not None:
            return self.connection.name()
        if self.remote:
            return self.remote
        return f"{self.access.user} over HTTP" if self.access.user else "a request"

    def text(self, name: str, otherwise: str | None = None) -> str:
        """Return a string: a required one, or `otherwise` if it is absent."""
        value = self.fields.get(name, otherwise)
        if isinstance(value, str) and value.isascii():
            return value
        text: str = _read(TEXT, name, value)
        return text

    def number(self, name: str) -> int:
        """Return a required non-negative integer."""
        return _whole(name, self.fields.get(name))

    def amount(self, name: str, otherwise: int) -> int:
        """Return a non-negative integer; `otherwise` if it is absent or null."""
        value = self.fields.get(name)
        return otherwise if value is None else _whole(name, value)

    def size(self, name: str, otherwise: int) -> int:
        """Return a number of bytes, which may have a unit ("4MiB"); `otherwise` if it is absent or null."""
        value = self.fields.get(name)
        if value is None:
            return otherwise
        size: int = _read(BYTES, name, value)
        return size

    def milliseconds(self, name: str, otherwise: int) -> int:
        """Return a time, which may have a unit ("30s"); `otherwise` if it is absent or null."""
        value = self.fields.get(name)
        if value is None:
            return otherwise
        time: int = _read(MILLISECONDS, name, value)
        return time

    def flag(self, name: str) -> bool:
        """Return a boolean; False if it is absent or null."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise _refusal(FLAG, name, value)
        return value is True

    def table(self, name: str) -> dict[str, object]:
        """Return an object; {} if it is absent. An empty list counts as an empty object: RabbitMQ's tools send it."""
        value = self.fields.get(name, {})
        if not isinstance(value, dict) and value != []:
            raise _refusal(OBJECT, name, value)
        return value if isinstance(value, dict) else {}

    def names(self, name: str, least: int = 1) -> list[str]:
        """Return a list of strings: at least `least` (0 or 1), without duplicates."""
        value = self.fields.get(name)
        if isinstance(value, list) and all(isinstance(item, str) and item.isascii() for item in value):
            if len(value) >= least and len(set(value)) == len(value):
                return value
        names: list[str] = _read(NAMES if least else ANY_NAMES, name, value)
        return names

    def offsets(self, name: str) -> dict[str, int]:
        """Return an object of queue names and sequence numbers; empty if absent or null."""
        value = self.fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise PreconditionFailed(f"'{name}' must be an object of queue names and sequences, not {worded(value)}")
        return {queue: _whole(f"{name}.{queue}", sequence) for queue, sequence in value.items()}

    def starting(self, name: str, queues: list[str]) -> dict[str, int | str]:
        """Return the start position of each queue: "earliest" (the default), "latest" or a sequence number.

        The position is one value for all queues, or an object by queue.
        """
        value = self.fields.get(name)
        if value is None or value == "earliest" or value == "latest":
            return dict.fromkeys(queues, "latest" if value == "latest" else "earliest")
        if not isinstance(value, dict):
            raise PreconditionFailed(f"'{name}' must be earliest, latest, or an object by queue, not {worded(value)}")
        positions: dict[str, int | str] = dict.fromkeys(queues, "earliest")
        for queue, start in value.items():
            if queue not in positions:
                raise PreconditionFailed(f"'{name}' names queue '{queue}', which is not one of {', '.join(queues)}")
            positions[queue] = str(start) if start in ("earliest", "latest") else _whole(f"{name}.{queue}", start)
        return positions


def check_fields(operation: str, known: tuple[str, ...], fields: dict[str, object]) -> None:
    """Raise PreconditionFailed (406) for a field that an operation does not have."""
    for name in fields:
        if name not in known:
            raise PreconditionFailed(unknown_name(operation, "field", name, known))


@mypyc_attr(allow_interpreted_subclasses=True)
class Replies:
    """Replies to control requests. The control API sends them."""

    broker: Broker

    def answer(self, request: ControlRequest, answer: dict[str, object]) -> None:
        """Reply with an object; encoding costs work as well."""
        raise NotImplementedError

    def reply(self, request: ControlRequest, content_type: str, body: bytes) -> None:
        """Put a reply into the queue of its requester.

        The broker never waits for room: without room the reply is dropped and logged.
        """
        raise NotImplementedError

    def reply_block(self, request: ControlRequest, content_type: str, block: LargeBody) -> None:
        """Put a block into the queue of its requester, as `reply` does: as a large message, whose pieces are never
        joined."""
        raise NotImplementedError

    def fail(self, request: ControlRequest, error: BrokerError) -> None:
        """Reply with an error."""
        raise NotImplementedError

    def answer_later(self, request: ControlRequest, steps: Steps[dict[str, object] | None]) -> None:
        """Carry out a reading operation over as many turns as needed, concurrently with changes."""
        raise NotImplementedError

    def answer_in_slices(
        self, request: ControlRequest, steps: Steps[dict[str, object] | None]
    ) -> dict[str, object] | None:
        """Carry out a reading operation within this turn's share of work, and the rest in later turns.

        Returns the answer, or None if it comes later.
        """
        try:
            next(steps)
        except StopIteration as end:
            answer: dict[str, object] | None = end.value
            return answer
        self.answer_later(request, steps)
        return None


def _access_of(connection: Connection | None) -> ConnectionAccess:
    return NO_ACCESS if connection is None else connection.access


def _parse(body: bytes) -> dict[str, object]:
    try:
        fields = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise PreconditionFailed(f"the body of a control request must be a JSON object: {error}") from None
    if not isinstance(fields, dict):
        raise PreconditionFailed("the body of a control request must be a JSON object")
    return fields


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MOST:
        raise _refusal(COUNT, name, value)
    return value


def _read(kind: Kind, name: str, value: object) -> Any:
    """Return a value of JSON by its kind, which is not compiled: what is valid at first sight does not come here."""
    found = kind.parse(value, True)
    if found is INVALID:
        raise _refusal(kind, name, value)
    return found


def _refusal(kind: Kind, name: str, value: object) -> PreconditionFailed:
    return PreconditionFailed(kind.fault(f"'{printable(name)}'", value))
