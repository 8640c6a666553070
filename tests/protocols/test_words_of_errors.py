"""Values in errors on the wire: AMQP types of each argument, without words of Python."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pytest

from penstock.content.properties import Properties
from penstock.core.settings.policy_reader import read_policy
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError, PreconditionFailed
from penstock.management.operation import Operation
from penstock.operations.table import CONTROL
from penstock.settings.read import FEATURES, KEYS_WITHOUT_EFFECT, OF_RABBITMQ
from penstock.settings.table import ALIASES, CONSUMERS, LINKS, OURS
from penstock.settings.without_effect import OF_CONSUMERS, OF_QUEUES
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard
from tests.support.amqp10_management import ManagementClient
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.operation_calls import ask

PYTHON: Final = re.compile(
    r"Decimal\(|datetime|\bNone\b|\bTrue\b|\bFalse\b|\bb'|\bb\"|\w+\(\w+=|Symbol\(|Described\(|Array\(|[a-z]+\(b?'|"
    r"\bu(?:byte|short|int|long)\(|<penstock|object at 0x|\bnan\b|\binf\b|NoneType|<class|\\x[0-9a-f]{2}"
)
"""What a value of Python looks like, and never a sentence of the broker."""
DEEP: Final[dict[str, object]] = {"list": [None, True, Decimal("1.5")], "table": {"octets": b"\x00\xff"}}
VALUES: Final[dict[str, object]] = {
    "boolean": True,
    "false": False,
    "integer": -7,
    "long": 1 << 62,
    "double": -1.5,
    "not a number": math.nan,
    "infinite": math.inf,
    "decimal": Decimal("127"),
    "long string": "weird 'text'\n",
    "octets in a long string": b"\xff\xfe",
    "byte array": bytes(3),
    "array": [*DEEP.values()],
    "empty array": [],
    "timestamp": datetime(1970, 1, 1, 0, 2, tzinfo=UTC),
    "table": DEEP,
    "empty table": {},
    "void": None,
}
"""A value of each type of AMQP 0-9-1 fields."""


def check(text: object, sent: str) -> None:
    assert isinstance(text, str)
    assert PYTHON.search(text) is None, f"{sent}: {text}"


class Sender091:
    """A client whose channel is opened again whenever the broker closes it."""

    def __init__(self) -> None:
        self.client = Dialogue(make_driver())
        self.errors = 0

    def say(self, sent: str, data: bytes) -> None:
        """Send octets, and check the text of each close and return that comes back."""
        for kind, _, payload in self.client.say(data):
            method = decode_method(payload) if kind == spec.FRAME_METHOD else None
            if method is not None and "reply_text" in method.args:
                self.errors += 1
                check(method.args["reply_text"], sent)
            if method is not None and method.name == "connection.close":
                self.client = Dialogue(make_driver())
            elif method is not None and method.name == "channel.close":
                self.client.say(method_frame(1, spec.CHANNEL_CLOSE_OK) + method_frame(1, spec.CHANNEL_OPEN))


QUEUE_NAMES: Final = [*OURS, *ALIASES, *FEATURES, *OF_QUEUES, "x-mesage-ttl", "x-delayed-retry-min", "colour"]
CONSUMER_NAMES: Final = [
    *(setting.name for setting in CONSUMERS),
    *OF_CONSUMERS,
    *("x-priority", "x-consumer-timeout", "x-credit", "x-consumer-timeot"),
]
BINDING_NAMES: Final = ["x-match", "x-jms-selector", "x-no-local", "colour"]
HEADER_NAMES: Final = ["CC", "BCC", "x-death", "x-delay", "x-match", "colour"]


@pytest.mark.parametrize("kind", VALUES)
def test_errors_of_amqp091_have_no_words_of_python(kind: str) -> None:
    sender, value = Sender091(), VALUES[kind]
    for name in QUEUE_NAMES:
        table = {name: value}
        sender.say(f"{name} of a queue", method_frame(1, spec.QUEUE_DECLARE, queue=name, arguments=table))
        declared = method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments={"x-max-length": 5, "x-overflow": "block"})
        sender.say("", declared)
        sender.say(f"{name} of q", method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments=table))
    for name in CONSUMER_NAMES:
        table = {name: value}
        sender.say(f"{name} of a consumer", method_frame(1, spec.BASIC_CONSUME, queue="q", arguments=table))
    for name in BINDING_NAMES:
        for exchange in ("amq.headers", "amq.topic"):
            bind = method_frame(1, spec.QUEUE_BIND, queue="q", exchange=exchange, arguments={name: value})
            sender.say(f"{name} of a binding", bind)
    for name in ("alternate-exchange", "hash-header", "x-alternate-exchange"):
        declare = method_frame(1, spec.EXCHANGE_DECLARE, exchange=name, type="topic", arguments={name: value})
        sender.say(f"{name} of an exchange", declare)
        differs = method_frame(1, spec.EXCHANGE_DECLARE, exchange="amq.topic", type="topic", arguments={name: value})
        sender.say(f"{name} of an exchange again", differs)
    for name in HEADER_NAMES:
        sender.say(f"header {name}", publish("q", b"x", properties=Properties(headers={name: value})))
    assert sender.errors > 20


def values_of_amqp10() -> dict[str, object]:
    """Return a value of each type of AMQP 1.0."""
    numbers = {kind: Typed(kind, 7) for kind in ("ubyte", "ushort", "uint", "ulong", "byte", "short", "int")}
    opaque = {"uuid": 16, "decimal32": 4, "decimal64": 8, "decimal128": 16}
    return {
        **numbers,
        **{kind: Typed(kind, bytes(range(octets))) for kind, octets in opaque.items()},
        "null": None,
        "boolean": True,
        "long": -7,
        "double": -1.5,
        "float": Typed("float", 1.5),
        "char": Typed("char", "x"),
        "timestamp": Typed("timestamp", 120_000),
        "binary": b"\x00\xff",
        "string": "weird 'text'\n",
        "symbol": Symbol("weird"),
        "list": [None, True, b"\x00"],
        "map": {Symbol("a"): None, "b": [Typed("uint", 5)]},
        "array": Array("uint", [1, 2]),
        "described": Described(Symbol("penstock:odd"), 5),
    }


def texts_of(heard: list[Heard]) -> list[str]:
    """Return the descriptions of errors in what a broker says."""
    found: list[str] = []
    for each in heard:
        if each.name in ("detach", "end", "close", "disposition"):
            error = each.performative.inner("state" if each.name == "disposition" else "error")
            found.append(str(error.fields) if error is not None and each.name == "disposition" else "")
            if error is not None and each.name != "disposition":
                found.append(error.text("description"))
    return [text for text in found if text]


LINK_NAMES: Final = [*LINKS, "credit-widow", "penstock:producer-lane", "penstock:lane", "paired", "x-credit"]


@pytest.mark.parametrize("kind", values_of_amqp10())
def test_errors_of_amqp10_have_no_words_of_python(kind: str) -> None:
    value, errors = values_of_amqp10()[kind], 0
    for name in LINK_NAMES:
        client = Amqp10Dialogue().declare("q")
        for text in texts_of(client.attach_sender("q", 1, properties={Symbol(name): value})):
            errors += 1
            check(text, f"{name} of a sender")
        client = Amqp10Dialogue(client.driver)
        source = composite(spec10.SOURCE, address="q", filter={Symbol(name): value})
        for text in texts_of(client.attach_receiver(None, 1, source=source, properties={Symbol(name): value})):
            check(text, f"{name} of a receiver")
    client = Amqp10Dialogue()
    manager = ManagementClient(client)
    for name in QUEUE_NAMES:
        body = {"durable": True, "arguments": {name: value}}
        answer = manager.ask("PUT", f"/queues/{name}", body)
        if answer.status >= 400:
            errors += 1
            check(answer.body, f"{name} of a queue")
    assert errors > 20


JSON: Final[dict[str, object]] = {
    "null": None,
    "true": True,
    "number": -7,
    "fraction": -1.5,
    "text": "weird 'text'\n",
    "list": [None, True, {"a": None}],
    "object": {"a": [None, False]},
}


@pytest.mark.parametrize("kind", JSON)
def test_errors_of_policies_have_no_words_of_python(kind: str) -> None:
    errors = 0
    for key in [*OURS, *ALIASES, *KEYS_WITHOUT_EFFECT, *OF_RABBITMQ, "alternate-exchange", "mesage-ttl"]:
        for operator in (False, True):
            try:
                read_policy("/", "p", {"pattern": "", "definition": {key: JSON[kind]}}, operator)
            except PreconditionFailed as error:
                errors += 1
                check(str(error), key)
    for field in ("pattern", "apply-to", "priority", "definition"):
        try:
            read_policy("/", "p", {"pattern": "", "definition": {"max-length": 5}, field: JSON[kind]}, False)
        except PreconditionFailed as error:
            check(str(error), field)
    assert errors > 20


def refusal(driver: BrokerDriver, row: Operation, fields: dict[str, Any]) -> str:
    """Return the text of an error of an operation; empty if it is carried out."""
    try:
        ask(driver, row.name, fields)
    except BrokerError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", JSON)
def test_errors_of_control_operations_have_no_words_of_python(kind: str) -> None:
    driver, errors = make_driver(), 0
    for row in CONTROL.values():
        for field in row.fields:
            text = refusal(driver, row, {field: JSON[kind]})
            errors += bool(text)
            check(text, f"{row.name}: {field}")
    assert errors > 20
