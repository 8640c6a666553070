"""The table of methods and reply codes, with pamqp as a second opinion."""

from __future__ import annotations

from pamqp import commands

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, encode_method
from penstock.wire.amqp091.spec import METHODS, ReplyCode

KNOWN_TO_PAMQP = [method for method in METHODS.values() if method.id in commands.INDEX_MAPPING]


def test_method_has_its_name_and_its_id() -> None:
    method = decode_method(encode_method(spec.QUEUE_DECLARE, queue="orders", durable=True))
    assert (method.name, method.id, method.spec) == ("queue.declare", 50 << 16 | 10, METHODS[spec.QUEUE_DECLARE])
    assert method.args["queue"] == "orders"


def test_method_constants_have_rows_in_the_table() -> None:
    named = {name: value for name, value in vars(spec).items() if f"{value}".isdigit() and value in METHODS}
    assert {METHODS[value].name.upper().replace(".", "_").replace("-", "_") for value in named.values()} == set(named)
    assert len(named) == len(METHODS)


def test_access_request_alone_is_unknown_to_pamqp() -> None:
    unknown = {method.name for method in METHODS.values() if method not in KNOWN_TO_PAMQP}
    assert unknown == {"access.request", "access.request-ok"}
    assert set(commands.INDEX_MAPPING) <= set(METHODS)


def test_reply_codes_have_the_names_that_rabbitmq_puts_before_its_texts() -> None:
    assert ReplyCode(406).name == "PRECONDITION_FAILED"
    assert int(ReplyCode.NOT_FOUND) == 404
