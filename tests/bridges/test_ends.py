"""Ends of bridges as URLs name them."""

from __future__ import annotations

import pytest

from penstock.bridges.ends import end_of, source_of, target_of
from penstock.errors import ConfigError

SOURCE = "amqp://shop:secret@old:5673/vh?queue=orders"


def test_end_has_the_connection_apart_from_queue_exchange_and_key() -> None:
    end = end_of("amqps://u:p@host/vh?heartbeat=5&exchange=log&key=a.b", "target")
    assert (end.url, end.exchange, end.key, end.queue) == ("amqps://u:p@host/vh?heartbeat=5", "log", "a.b", "")
    assert str(end) == "exchange log with key a.b of amqps://host/vh"
    assert source_of("amqp://host/?queue=a%20b%26c").queue == "a b&c"


def test_target_without_a_name_is_the_queue_of_the_source() -> None:
    source = source_of(SOURCE)
    target = target_of("amqp://new/", source)
    assert (target.queue, target.key) == ("orders", None)
    assert target_of("amqp://new/?exchange=log", source).key is None


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("amqp://shop:secret@host/?exchange=a", "the source names no queue"),
        ("http://shop:secret@host/?queue=a", "the source is no URL of a broker"),
        ("amqp://shop:secret@host:port/?queue=a", "the source is no URL"),
        ("amqp://shop:secret@[::1/?queue=a", "the source is no URL"),
        ("amqp://shop:secret@host/?queue=a&queue=b", "names its queue twice"),
        ("amqp://shop:secret@host/?queue=a&exchange=b", "both a queue and an exchange"),
        ("?queue=a&password=secret", "the source is no URL of a broker"),
    ],
)
def test_unfit_source_is_refused_without_its_password(url: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule) as raised:
        source_of(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["amqp://other:pass@OLD:5673/vh", "amqp://old:5673/vh?queue=orders&heartbeat=1"])
def test_queue_is_not_carried_onto_itself(url: str) -> None:
    with pytest.raises(ConfigError, match="queue orders of amqp://old:5673/vh would be carried onto itself"):
        target_of(url, source_of(SOURCE))


def test_key_of_a_target_needs_an_exchange() -> None:
    with pytest.raises(ConfigError, match="a key without an exchange"):
        target_of("amqp://new/?key=a", source_of(SOURCE))


def test_queue_of_this_broker_is_known_by_its_ports_on_this_machine() -> None:
    here = source_of("amqp:///vh?queue=orders", True)
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "[::1]"):
        with pytest.raises(ConfigError, match="queue orders of vhost vh of this broker would be carried onto itself"):
            target_of(f"amqp://{host}:5679/vh", here, True, [5679])
        assert target_of(f"amqp://{host}:5678/vh", here, True, [5679]).queue == "orders"
        assert target_of(f"amqp://{host}:5679/other", here, True, [5679]).queue == "orders"
    assert target_of("amqp://far:5679/vh", here, True, [5679]).queue == "orders"
    assert not here.is_same(source_of("amqp://:5673/vh?queue=orders"))
