"""One conversation in bytes: a sender and a broker, with the codec on both sides."""

from __future__ import annotations

from librt.strings import BytesWriter

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_performative, encode
from penstock.wire.amqp10.field_cursor import FieldCursor
from penstock.wire.amqp10.frames import (
    AMQP_HEADER,
    INCOMPLETE,
    SASL_HEADER,
    frame,
    frame_body,
    frame_channel,
    frame_end,
)
from penstock.wire.amqp10.transfer import (
    ACCEPTED_STATE,
    Disposition,
    Flow,
    Transfer,
    write_continuation,
    write_delivery,
    write_disposition,
    write_flow,
)
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, ulong
from tests.support.amqp10_sections import walked
from tests.support.amqp10_strategies import section
from tests.support.frame_splitter import FrameSplitter

MESSAGE = section(spec.APPLICATION_PROPERTIES, {"kind": "a"}) + section(spec.DATA, b"x" * 600)


def performatives(splitter: FrameSplitter, data: bytes) -> list[Composite]:
    return [decode_performative(each.body)[0] for each in splitter.feed(data) if each.body]


def test_login_of_a_client() -> None:
    """Section 5.3.2: the SASL layer has frames of its own type, and the AMQP header comes after its outcome."""
    client = FrameSplitter(512)
    offered = encode(spec.SASL_MECHANISMS, sasl_server_mechanisms=["PLAIN", "ANONYMOUS"])
    outcome = encode(spec.SASL_OUTCOME, code=0)
    sent = SASL_HEADER + frame(0, offered, spec.FRAME_SASL) + frame(0, outcome, spec.FRAME_SASL)
    assert client.take_header(sent) == SASL_HEADER
    frames = client.feed(b"")
    assert [each.kind for each in frames] == [spec.FRAME_SASL, spec.FRAME_SASL]
    mechanisms, found = (decode_performative(each.body)[0] for each in frames)
    assert mechanisms.texts("sasl_server_mechanisms") == ["PLAIN", "ANONYMOUS"]
    assert found.number("code") == 0
    assert client.take_header(AMQP_HEADER) == AMQP_HEADER


def test_sender_opens_begins_and_attaches_in_one_write() -> None:
    broker = FrameSplitter(512)
    sent = (
        frame(0, encode(spec.OPEN, container_id="sender", hostname="vhost:/", max_frame_size=512))
        + frame(0)
        + frame(3, encode(spec.BEGIN, next_outgoing_id=0, incoming_window=100, outgoing_window=100))
        + frame(
            3,
            encode(
                spec.ATTACH,
                name="link",
                handle=0,
                role=False,
                source=composite(spec.SOURCE),
                target=composite(spec.TARGET, address="/queues/q"),
                initial_delivery_count=0,
            ),
        )
    )
    opened, begun, attached = performatives(broker, sent)
    assert (opened.text("container_id"), opened.number("max_frame_size")) == ("sender", 512)
    assert begun.number("remote_channel") == -1
    target = attached.inner("target")
    assert target.text("address") == "/queues/q"


def test_broker_grants_credit_and_settles_a_delivery_of_two_frames() -> None:
    grant = BytesWriter()
    write_flow(grant, 3, 0, 100, 0, 100, 0, 0, 10)
    cursor, flow = FieldCursor(), Flow()
    data = grant.getvalue()
    cursor.open(data, 8, len(data))
    flow.read(cursor, data, 8, len(data))
    assert (flow.handle, flow.link_credit) == (0, 10)

    out = BytesWriter()
    write_delivery(out, 3, 0, 0, 1, False, True, 400)
    out.write(MESSAGE[:400])
    write_continuation(out, 3, 0, False, len(MESSAGE) - 400)
    out.write(MESSAGE[400:])
    received = b""
    data, pos, transfer = out.getvalue(), 0, Transfer()
    while True:
        end = frame_end(data, pos, len(data), 512)
        if end == INCOMPLETE:
            break
        body = frame_body(data, pos)
        assert frame_channel(data, pos) == 3
        assert cursor.open(data, body, end) == spec.TRANSFER
        transfer.read(cursor, data, body, end)
        received += data[transfer.payload : end]
        pos = end
    assert not transfer.more
    assert received == MESSAGE
    sections = walked(received)
    assert sections.body_code == spec.DATA

    settled = BytesWriter()
    write_disposition(settled, 3, True, 0, 0, True, ACCEPTED_STATE)
    data, disposition = settled.getvalue(), Disposition()
    cursor.open(data, 8, len(data))
    disposition.read(cursor, data, 8, len(data))
    assert (disposition.first, disposition.last, disposition.settled) == (0, 0, True)
    assert disposition.state_code == spec.ACCEPTED


def test_error_of_a_close_is_read_with_its_reasons() -> None:
    error = composite(spec.ERROR, condition="amqp:resource-limit-exceeded", description="queue 'q' is full")
    (closed,) = performatives(FrameSplitter(512), frame(0, encode(spec.CLOSE, error=error)))
    found = closed.inner("error")
    assert (found.text("condition"), found.text("description")) == ("amqp:resource-limit-exceeded", "queue 'q' is full")


def test_transaction_is_declared_by_a_message() -> None:
    """Section 4.2: declare and discharge are the values of messages to the coordinator."""
    message = encode_value(Described(ulong(spec.AMQP_VALUE), None))[:-1] + encode(spec.DECLARE)
    sections = walked(message)
    assert sections.body_code == spec.AMQP_VALUE
    found, _ = decode_performative(message, int(sections.body_at) + 3)
    assert found.code == spec.DECLARE
