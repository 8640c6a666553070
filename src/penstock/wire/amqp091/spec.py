"""Constants and method table of AMQP 0-9-1, with the extensions of RabbitMQ that clients rely on.

The table `METHODS` defines the fields of every method, and the codec reads only this table. Field types are the
specification's (section 4.2.5) without their domains: octet, short, long, longlong, shortstr, longstr, bit, table.
Names are the specification's with underscores for hyphens. The field that RabbitMQ's confirm.select calls `nowait` is
`no_wait` here as everywhere else. Consecutive bits share bytes (section 4.2.5.2).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
"""The eight bytes with which a client asks for 0-9-1 (section 4.2.2)."""

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE

FRAME_OVERHEAD: Final = 8
"""Bytes that a frame adds to its payload: kind, channel, size and the end mark (section 4.2.3)."""
PAYLOAD_AT: Final = 7
"""Position of the payload in a frame (section 4.2.3)."""
FRAME_MIN_SIZE: Final = 4096
"""Every peer must accept frames of this size, and no larger frames before `connection.tune` (section 4.2.3)."""

CLASS_BASIC: Final = 60

CONNECTION_START: Final = 10 << 16 | 10
CONNECTION_START_OK: Final = 10 << 16 | 11
CONNECTION_SECURE: Final = 10 << 16 | 20
CONNECTION_SECURE_OK: Final = 10 << 16 | 21
CONNECTION_TUNE: Final = 10 << 16 | 30
CONNECTION_TUNE_OK: Final = 10 << 16 | 31
CONNECTION_OPEN: Final = 10 << 16 | 40
CONNECTION_OPEN_OK: Final = 10 << 16 | 41
CONNECTION_CLOSE: Final = 10 << 16 | 50
CONNECTION_CLOSE_OK: Final = 10 << 16 | 51
CONNECTION_BLOCKED: Final = 10 << 16 | 60
CONNECTION_UNBLOCKED: Final = 10 << 16 | 61
CONNECTION_UPDATE_SECRET: Final = 10 << 16 | 70
CONNECTION_UPDATE_SECRET_OK: Final = 10 << 16 | 71
CHANNEL_OPEN: Final = 20 << 16 | 10
CHANNEL_OPEN_OK: Final = 20 << 16 | 11
CHANNEL_FLOW: Final = 20 << 16 | 20
CHANNEL_FLOW_OK: Final = 20 << 16 | 21
CHANNEL_CLOSE: Final = 20 << 16 | 40
CHANNEL_CLOSE_OK: Final = 20 << 16 | 41
ACCESS_REQUEST: Final = 30 << 16 | 10
ACCESS_REQUEST_OK: Final = 30 << 16 | 11
EXCHANGE_DECLARE: Final = 40 << 16 | 10
EXCHANGE_DECLARE_OK: Final = 40 << 16 | 11
EXCHANGE_DELETE: Final = 40 << 16 | 20
EXCHANGE_DELETE_OK: Final = 40 << 16 | 21
EXCHANGE_BIND: Final = 40 << 16 | 30
EXCHANGE_BIND_OK: Final = 40 << 16 | 31
EXCHANGE_UNBIND: Final = 40 << 16 | 40
EXCHANGE_UNBIND_OK: Final = 40 << 16 | 51
QUEUE_DECLARE: Final = 50 << 16 | 10
QUEUE_DECLARE_OK: Final = 50 << 16 | 11
QUEUE_BIND: Final = 50 << 16 | 20
QUEUE_BIND_OK: Final = 50 << 16 | 21
QUEUE_PURGE: Final = 50 << 16 | 30
QUEUE_PURGE_OK: Final = 50 << 16 | 31
QUEUE_DELETE: Final = 50 << 16 | 40
QUEUE_DELETE_OK: Final = 50 << 16 | 41
QUEUE_UNBIND: Final = 50 << 16 | 50
QUEUE_UNBIND_OK: Final = 50 << 16 | 51
BASIC_QOS: Final = 60 << 16 | 10
BASIC_QOS_OK: Final = 60 << 16 | 11
BASIC_CONSUME: Final = 60 << 16 | 20
BASIC_CONSUME_OK: Final = 60 << 16 | 21
BASIC_CANCEL: Final = 60 << 16 | 30
BASIC_CANCEL_OK: Final = 60 << 16 | 31
BASIC_PUBLISH: Final = 60 << 16 | 40
BASIC_RETURN: Final = 60 << 16 | 50
BASIC_DELIVER: Final = 60 << 16 | 60
BASIC_GET: Final = 60 << 16 | 70
BASIC_GET_OK: Final = 60 << 16 | 71
BASIC_GET_EMPTY: Final = 60 << 16 | 72
BASIC_ACK: Final = 60 << 16 | 80
BASIC_REJECT: Final = 60 << 16 | 90
BASIC_RECOVER_ASYNC: Final = 60 << 16 | 100
BASIC_RECOVER: Final = 60 << 16 | 110
BASIC_RECOVER_OK: Final = 60 << 16 | 111
BASIC_NACK: Final = 60 << 16 | 120
CONFIRM_SELECT: Final = 85 << 16 | 10
CONFIRM_SELECT_OK: Final = 85 << 16 | 11
TX_SELECT: Final = 90 << 16 | 10
TX_SELECT_OK: Final = 90 << 16 | 11
TX_COMMIT: Final = 90 << 16 | 20
TX_COMMIT_OK: Final = 90 << 16 | 21
TX_ROLLBACK: Final = 90 << 16 | 30
TX_ROLLBACK_OK: Final = 90 << 16 | 31


class ReplyCode(IntEnum):
    """Reply codes: the reasons of a failed method (section 1.2). As in RabbitMQ, `name` precedes the reply text."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


class MethodSpec:
    """One method: its id (class << 16 | method), its name such as "queue.declare", and its fields in wire order."""

    __slots__ = ("fields", "id", "name")

    def __init__(self, id: int, name: str, fields: tuple[tuple[str, str], ...]) -> None:
        self.id: Final = id
        self.name: Final = name
        self.fields: Final = fields

    def __repr__(self) -> str:
        return f"<MethodSpec {self.name}>"


_SIGNATURES: Final = """\
connection.start: octet version_major, octet version_minor, table server_properties, longstr mechanisms,
    longstr locales
connection.start-ok: table client_properties, shortstr mechanism, longstr response, shortstr locale
connection.secure: longstr challenge
connection.secure-ok: longstr response
connection.tune: short channel_max, long frame_max, short heartbeat
connection.tune-ok: short channel_max, long frame_max, short heartbeat
connection.open: shortstr virtual_host, shortstr reserved_1, bit reserved_2
connection.open-ok: shortstr reserved_1
connection.close: short reply_code, shortstr reply_text, short class_id, short method_id
connection.close-ok:
connection.blocked: shortstr reason
connection.unblocked:
connection.update-secret: longstr new_secret, shortstr reason
connection.update-secret-ok:
channel.open: shortstr reserved_1
channel.open-ok: longstr reserved_1
channel.flow: bit active
channel.flow-ok: bit active
channel.close: short reply_code, shortstr reply_text, short class_id, short method_id
channel.close-ok:
access.request: shortstr realm, bit exclusive, bit passive, bit active, bit write, bit read
access.request-ok: short reserved_1
exchange.declare: short reserved_1, shortstr exchange, shortstr type, bit passive, bit durable, bit auto_delete,
    bit internal, bit no_wait, table arguments
exchange.declare-ok:
exchange.delete: short reserved_1, shortstr exchange, bit if_unused, bit no_wait
exchange.delete-ok:
exchange.bind: short reserved_1, shortstr destination, shortstr source, shortstr routing_key, bit no_wait,
    table arguments
exchange.bind-ok:
exchange.unbind: short reserved_1, shortstr destination, shortstr source, shortstr routing_key, bit no_wait,
    table arguments
exchange.unbind-ok:
queue.declare: short reserved_1, shortstr queue, bit passive, bit durable, bit exclusive, bit auto_delete,
    bit no_wait, table arguments
queue.declare-ok: shortstr queue, long message_count, long consumer_count
queue.bind: short reserved_1, shortstr queue, shortstr exchange, shortstr routing_key, bit no_wait, table arguments
queue.bind-ok:
queue.purge: short reserved_1, shortstr queue, bit no_wait
queue.purge-ok: long message_count
queue.delete: short reserved_1, shortstr queue, bit if_unused, bit if_empty, bit no_wait
queue.delete-ok: long message_count
queue.unbind: short reserved_1, shortstr queue, shortstr exchange, shortstr routing_key, table arguments
queue.unbind-ok:
basic.qos: long prefetch_size, short prefetch_count, bit global
basic.qos-ok:
basic.consume: short reserved_1, shortstr queue, shortstr consumer_tag, bit no_local, bit no_ack, bit exclusive,
    bit no_wait, table arguments
basic.consume-ok: shortstr consumer_tag
basic.cancel: shortstr consumer_tag, bit no_wait
basic.cancel-ok: shortstr consumer_tag
basic.publish: short reserved_1, shortstr exchange, shortstr routing_key, bit mandatory, bit immediate
basic.return: short reply_code, shortstr reply_text, shortstr exchange, shortstr routing_key
basic.deliver: shortstr consumer_tag, longlong delivery_tag, bit redelivered, shortstr exchange, shortstr routing_key
basic.get: short reserved_1, shortstr queue, bit no_ack
basic.get-ok: longlong delivery_tag, bit redelivered, shortstr exchange, shortstr routing_key, long message_count
basic.get-empty: shortstr reserved_1
basic.ack: longlong delivery_tag, bit multiple
basic.reject: longlong delivery_tag, bit requeue
basic.recover-async: bit requeue
basic.recover: bit requeue
basic.recover-ok:
basic.nack: longlong delivery_tag, bit multiple, bit requeue
confirm.select: bit no_wait
confirm.select-ok:
tx.select:
tx.select-ok:
tx.commit:
tx.commit-ok:
tx.rollback:
tx.rollback-ok:
"""
"""A method a line, its fields behind its name; an indented line continues the line above.

Class access was withdrawn from 0-9-1; RabbitMQ still answers it, because clients written for 0-8 use it.
"""


def _spec(line: str) -> MethodSpec:
    name, _, signature = line.partition(":")
    number: int = globals()[name.upper().replace(".", "_").replace("-", "_")]
    fields = [field.split() for field in signature.split(",") if field.strip()]
    return MethodSpec(number, name, tuple((field, kind) for kind, field in fields))


METHODS: Final[dict[int, MethodSpec]] = {
    spec.id: spec for spec in map(_spec, _SIGNATURES.replace("\n    ", " ").splitlines())
}
"""Every method that the codec knows, by id."""
