"""Trace context (W3C) in messages: the broker passes `traceparent` and `tracestate` on, also between protocols.

OpenTelemetry's instrumentations write them as headers of AMQP 0-9-1 and as application properties of AMQP 1.0; its
semantic conventions for AMQP 1.0 permit message annotations too.
"""

from __future__ import annotations

from penstock.content.properties import Properties
from tests.support.amqp10_messages import decode_message
from tests.support.conversion_table import DEAD_LETTERS, Pair, message

TRACE = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
    "baggage": "user=alice",
}


def test_trace_context_passes_through_amqp_0_9_1() -> None:
    pair = Pair()
    pair.send091(Properties(headers=dict(TRACE)))
    assert pair.read091().properties["headers"] == TRACE


def test_trace_context_passes_through_amqp_1_0_in_either_section() -> None:
    pair = Pair()
    pair.send10(message(application=dict(TRACE)))
    assert decode_message(pair.read10()).application == TRACE
    pair.send10(message(annotations=dict(TRACE)))
    annotations = decode_message(pair.read10()).annotations
    assert {name: annotations[name] for name in TRACE} == TRACE


def test_trace_context_passes_from_each_protocol_to_the_other() -> None:
    pair = Pair()
    pair.send091(Properties(headers=dict(TRACE)))
    assert decode_message(pair.read10()).application == TRACE
    pair.send10(message(application=dict(TRACE)))
    assert pair.read091().properties["headers"] == TRACE
    pair.send10(message(annotations=dict(TRACE)))
    assert pair.read091().properties["headers"] == TRACE
    ours = {"traceparent": TRACE["traceparent"].replace("00f067aa0ba902b7", "1122334455667788")}
    pair.send10(message(application=dict(ours), annotations=dict(TRACE)))
    assert pair.read091().properties["headers"] == {**TRACE, **ours}


def test_dead_letter_and_a_second_delivery_keep_the_trace_context() -> None:
    pair = Pair(**DEAD_LETTERS)
    pair.send091(Properties(headers=dict(TRACE)))
    pair.fail()
    pair.reject()
    headers = pair.read091("d").properties["headers"]
    assert {name: headers[name] for name in TRACE} == TRACE
