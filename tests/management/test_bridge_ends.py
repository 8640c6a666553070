"""Ends of bridges as parameters name them."""

from __future__ import annotations

import pytest

from penstock.describe.table import Row
from penstock.management.bridge_ends import SOURCE, TARGET, bridge_end, end_title, shovel_end

HOST = "amqp://u:secret@host"


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (
            {"src-uri": HOST, "src-queue": "a", "dest-uri": "amqp:///eu", "dest-queue": "b"},
            *("queue a of amqp://host/", "queue b of vhost eu of this broker"),
        ),
        (
            {"src-uri": [HOST], "src-exchange": "logs", "src-exchange-key": "k.#", "dest-uri": HOST},
            *("exchange logs with key k.# of amqp://host/", "amqp://host/"),
        ),
        (
            {"src-uri": HOST, "src-address": "/queues/a%2Fb", "dest-uri": HOST, "dest-exchange": ""},
            *("address /queues/a%2Fb of amqp://host/", "exchange  of amqp://host/"),
        ),
        ({"src-uri": f"{HOST}:port", "src-queue": 5}, "an unknown broker", "an unknown broker"),
        ({"source": f"{HOST}?queue=a", "target": "amqp://"}, "queue a of amqp://host/", "queue a of this broker"),
        (
            {"source": f"{HOST}?queue=a", "target": f"{HOST}?exchange=logs&key=k"},
            *("queue a of amqp://host/", "exchange logs with key k of amqp://host/"),
        ),
    ],
)
def test_title_of_an_end_has_its_place_and_broker(value: Row, source: str, target: str) -> None:
    spec: Row = {"vhost": "/", "value": value}
    assert (end_title(spec, SOURCE), end_title(spec, TARGET)) == (source, target)


@pytest.mark.parametrize(
    ("kind", "value", "source"),
    [
        ("queue", {"uri": HOST}, "queue q of amqp://host/eu"),
        ("queue", {"uri": f"{HOST}/", "queue": "far", "exchange": "x"}, "queue far of amqp://host/"),
        ("exchange", {"uri": "amqp://", "queue": "far", "exchange": "x"}, "exchange x of vhost eu of this broker"),
    ],
)
def test_link_has_its_upstream_and_its_own_object(kind: str, value: Row, source: str) -> None:
    spec: Row = {"vhost": "eu", "value": value, "link": {"kind": kind, "resource": "q"}}
    assert (end_title(spec, SOURCE), end_title(spec, TARGET)) == (source, f"{kind} q of vhost eu of this broker")


def test_upstream_without_links_has_its_broker() -> None:
    spec: Row = {"vhost": "eu", "component": "federation", "value": {"uri": [f"{HOST}/v", HOST]}}
    assert (end_title(spec, SOURCE), end_title(spec, TARGET)) == ("amqp://host/v", "vhost eu of this broker")


def test_value_that_is_no_object_has_no_title() -> None:
    assert end_title({"vhost": "/", "value": 5}, SOURCE) == ""


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"dest-queue": "b"}, False),
        ({"dest-uri": "amqp:///eu"}, False),
        ({"dest-uri": ["amqp://elsewhere", "amqp:///"]}, True),
        ({"src-uri": "amqp://Host:5672", "dest-uri": "amqp://u:p@host/"}, True),
        ({"src-uri": "amqp://host", "dest-uri": "amqp://host:5673"}, False),
        ({"dest-queue": None, "dest-exchange": "a"}, False),
        ({"dest-queue": None, "dest-address": "/queues/a"}, True),
        ({"dest-queue": None, "dest-address": "a"}, True),
    ],
)
def test_shovel_between_two_names_of_one_queue_is_found(changes: Row, same: bool) -> None:
    value: Row = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp:///%2F", "dest-queue": "a", **changes}
    assert shovel_end(value, SOURCE).is_same(shovel_end(value, TARGET)) == same


@pytest.mark.parametrize(
    ("target", "same"),
    [("amqp://", True), ("amqp:///?queue=a", True), ("amqp:///eu", False), ("amqp:///?exchange=a", False)],
)
def test_bridge_between_two_names_of_one_queue_is_found(target: str, same: bool) -> None:
    value: Row = {"source": "amqp:///?queue=a", "target": target}
    assert bridge_end(value, SOURCE).is_same(bridge_end(value, TARGET)) == same
