"""Rows of a spool: digests, properties and dead-letter headers of deliveries."""

from penstock.client.engine.amqp091.connection import Engine091
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.terms import ConnectionTerms, ReceiverTerms
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp091.content_header import encode_header
from pyspark_amqp.spool.rows import Row, batch_of, deaths_of, digest_of, estimated_octets, spool_schema

RECEIVER = Engine091(ConnectionTerms()).new_receiver(ReceiverTerms())


def delivery(body: bytes = b"x", redelivered: bool = False, tag: int = 1, **properties: object) -> Delivery:
    place = {"exchange": "e", "routing_key": "k", "redelivered": redelivered}
    deliver = method_frame(1, spec.BASIC_DELIVER, consumer_tag="c", delivery_tag=tag, **place)
    return Delivery(RECEIVER, tag, 0, body, encode_header(len(body), Properties(**properties)), deliver[7:-1])


def test_digest_covers_the_properties_that_a_broker_repeats():
    base = digest_of("q", delivery(headers={"a": 1}))
    again = delivery(redelivered=True, tag=9, headers={"a": 1, "x-delivery-count": 2})
    assert digest_of("q", again) == base
    assert digest_of("q", delivery(headers={"x-delivery-count": 1})) == digest_of("q", delivery())
    different = [
        digest_of("r", delivery(headers={"a": 1})), digest_of("q", delivery(b"y", headers={"a": 1})),
        digest_of("q", delivery(headers={"a": 2})), digest_of("q", delivery(headers={"a": 1}, message_id="m")),
        digest_of("q", delivery(headers={"a": 1}, timestamp=5)), digest_of("q", delivery()),
    ]  # fmt: skip
    assert len({base, *different}) == 7


def test_batch_has_the_schema_of_the_spool_and_the_estimated_bytes():
    rows = [Row(number, "q", 0, delivery(bytes(number)), bytes(16)) for number in range(1, 501)]
    batch = batch_of(rows)
    assert batch.schema == spool_schema()
    assert batch.column("sequence").to_pylist() == list(range(1, 501))
    assert batch.serialize().size <= sum(estimated_octets(row.delivery) for row in rows) + 8_192
    one = delivery(b"", headers={"name": "x" * 1_000, "raw": bytes(range(256))}, message_id="m" * 200)
    assert batch_of([Row(1, "q", 0, one, bytes(16))]).serialize().size <= estimated_octets(one) + 8_192


def test_numbers_of_64_bits_without_a_sign_keep_their_bits():
    batch = batch_of([Row(1, "q", 0, delivery(timestamp=2**64 - 1), bytes(16))])
    assert batch.column("message_timestamp").to_pylist() == [-1]


def test_deaths_are_counted_and_invalid_counts_ignored():
    assert deaths_of(None) == deaths_of({"x-death": "no"}) == deaths_of({"x-death": [1, {"count": "x"}]}) == 0
    assert deaths_of({"x-death": [{"count": 2}, {"count": 3}]}) == 5
