"""Streams of RabbitMQ, which are told from other queues before they are consumed."""

import pytest

from pyspark_amqp.spool.receiver import tells_streams


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"product": "RabbitMQ", "version": "3.10.8"}, True),
        ({"product": "RabbitMQ", "version": "4.0.0-rc.1"}, True),
        ({"product": "RabbitMQ", "version": "3.9.29"}, False),
        ({"product": "RabbitMQ"}, False),
        ({"product": "LavinMQ", "version": "4.2.0"}, False),
        ({}, False),
    ],
)
def test_only_versions_that_refuse_other_queues_too_are_asked(properties, told):
    assert tells_streams(properties) is told
