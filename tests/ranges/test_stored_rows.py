"""Rows of blocks that are contents as a broker stores them."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.message_format import MessageFormats
from penstock.errors import AccessRefused, BrokerError, PreconditionFailed
from penstock.protocols.amqp091.content_frames import make_content
from penstock.ranges.incoming_block import IncomingBlock
from penstock.ranges.stored_rows import StoredRows
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.composite import encode
from tests.support.access_of import access_of
from tests.support.amqp10_strategies import section
from tests.support.block_encoder import encode_published
from tests.support.driven_connection import Dialogue, make_driver

DATA = section(spec10.DATA, b"body")


class World:
    """A driver with a queue, and contents that a client may publish to it."""

    def __init__(self) -> None:
        self.driver = make_driver()
        self.vhost = self.driver.broker.vhosts["/"]
        self.client = Dialogue(self.driver)
        self.client.declare("q")

    def rows(self, *contents: bytes, most: int = 1 << 27, **constants: object) -> StoredRows:
        constants = constants or {"routing_key": "q"}
        block = IncomingBlock(encode_published([{"content": content} for content in contents], constants))
        assert block.is_stored
        return StoredRows(self.driver.broker, self.vhost, block, access_of(self.driver.broker), most)

    def routed(self, content: bytes, **constants: object) -> list[str]:
        """Return the queues of a content."""
        rows = self.rows(content, **constants)
        rows.load(0)
        return [queue.name for queue in rows.route.queues]


@pytest.fixture
def world() -> World:
    return World()


def test_content_of_each_protocol_is_a_row_unchanged(world: World) -> None:
    contents = (make_content(Properties(message_id="m"), b"x"), DATA, make_content(Properties(), b"y"))
    rows = world.rows(*contents)
    for row, content in enumerate(contents):
        rows.load(row)
        assert rows.content == content
        assert rows.charge == world.driver.broker.formats.of(content).charge(content) + 240
        assert [queue.name for queue in rows.route.queues] == ["q"]


def test_route_has_priority_and_times_of_the_content(world: World) -> None:
    own = make_content(Properties(priority=5, expiration="1500"), b"")
    expires_ms = int((world.driver.broker.now + world.driver.broker.wall_offset) * 1000) + 9_000
    later = encode(spec10.PROPERTIES, absolute_expiry_time=expires_ms) + DATA
    rows = world.rows(own, make_content(Properties(priority=3), b""), make_content(Properties(), b""), later, DATA)
    found = []
    for row in range(5):
        rows.load(row)
        found.append((rows.route.envelope.priority, round(rows.route.envelope.ttl_s, 1)))
    assert found == [(5, 1.5), (3, float("inf")), (0, float("inf")), (4, 9.0), (4, float("inf"))]


def test_copies_in_headers_are_kept_and_not_routed_again(world: World) -> None:
    world.client.declare("copy")
    content = make_content(Properties(headers={"CC": ["copy"], "BCC": ["copy"]}), b"x")
    assert world.routed(content) == ["q"]


def test_exchange_of_headers_reads_the_content(world: World) -> None:
    world.client.say(method_frame(1, spec.EXCHANGE_DECLARE, exchange="h", type="headers"))
    arguments = {"x-match": "all", "a": "1"}
    world.client.say(method_frame(1, spec.QUEUE_BIND, queue="q", exchange="h", routing_key="", arguments=arguments))
    properties = section(spec10.APPLICATION_PROPERTIES, {"a": "1"})
    for content in (make_content(Properties(headers={"a": "1"}), b""), properties + DATA):
        assert world.routed(content, exchange="h") == ["q"]
    assert world.routed(make_content(Properties(headers={"a": "2"}), b""), exchange="h") == []


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "row 1: a content of a format that this broker does not know: it has no byte; known are AMQP 1.0"),
        (b"\x07x", r"its first byte is 7; known are AMQP 1.0 \(0\) and AMQP 0-9-1 \(2\). A newer version of Penstock"),
        (b"\xf5" + bytes(40), "its first byte is 245"),
        (make_content(Properties(), b"x")[:-1], "row 1: a body frame of 1 bytes is not whole"),
        (DATA[:-1], "row 1: data"),
        (make_content(Properties(), bytes(101)), "row 1: message size 101 is larger than configured max size 100"),
    ],
)
def test_row_that_is_no_message_is_refused_with_its_number(world: World, content: bytes, rule: str) -> None:
    rows = world.rows(make_content(Properties(), b"sound"), content, most=100)
    rows.load(0)
    with pytest.raises(PreconditionFailed, match=rule):
        rows.load(1)


def test_content_of_a_format_without_a_check_is_refused(world: World) -> None:
    rows = world.rows(b"Tx")
    from tests.support.toy_format import ToyFormat

    world.driver.broker.formats.add(ToyFormat())
    with pytest.raises(PreconditionFailed, match="row 0: a content of toy is not published as it is stored"):
        rows.load(0)
    assert MessageFormats().names() == ""


def test_control_operation_is_no_row(world: World) -> None:
    rows = world.rows(make_content(Properties(), b"{}"), exchange="penstock.control", routing_key="status")
    with pytest.raises(AccessRefused, match="row 0 is a control operation"):
        rows.load(0)


def test_null_content_is_refused(world: World) -> None:
    block = IncomingBlock(encode_published([{"content": b"x"}, {"content": None}], {"routing_key": "q"}))
    rows = StoredRows(world.driver.broker, world.vhost, block, access_of(world.driver.broker), 100)
    with pytest.raises(BrokerError, match="column content: row 1 is null"):
        rows.load(1)
