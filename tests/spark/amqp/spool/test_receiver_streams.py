"""Streams of RabbitMQ, which are recognised before they are consumed."""

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
def test_broker_versions_that_refuse_streams_differently_are_recognised(properties, told):
    assert tells_streams(properties) is told
