"""Client libraries of `penstock bench survive`: each sends, and reports its errors as its user sees them."""

from __future__ import annotations

import pytest

from penstock import sync
from penstock.client.bench.survive import survivor
from penstock.client.bench.survivors import LIBRARIES, NUMBERS, Library, Place, text_of
from penstock.client.bench.target import Target

OURS_ONLY = "RabbitMQ's 1.0 client"


def test_place_has_the_parts_of_the_url() -> None:
    place = Place("amqp://me:p%40ss@[::1]:5673/v%2Fh", "orders", 1.0)
    assert (place.host, place.port, place.login, place.vhost) == ("::1", 5673, ("me", "p@ss"), "v/h")
    default = Place("amqp://127.0.0.1", "orders", 1.0)
    assert (default.port, default.login, default.vhost) == (5672, ("guest", "guest"), "/")


@pytest.mark.clients
@pytest.mark.parametrize("library", [each for each in LIBRARIES if each.name != OURS_ONLY], ids=lambda each: each.name)
def test_library_sends_numbers_singly(target: Target, library: Library) -> None:
    pytest.importorskip(library.package)
    with target.queue() as queue, survivor(library, target.url, queue, 20.0) as found:
        assert found.wait_for("ready", 60)
        found.go_on()
        assert found.wait_for("waiting", 60)
        assert [found.outcome(number) for number in range(NUMBERS)] == [
            line for line in found.lines if "seconds" in line
        ]
        assert not any("error" in line for line in found.lines)
        with sync.connect(target.url) as connection:
            assert connection.purge_queue(queue) == NUMBERS


@pytest.mark.clients
def test_client_of_rabbitmq_refuses_another_broker(target: Target) -> None:
    library = next(each for each in LIBRARIES if each.name == OURS_ONLY)
    pytest.importorskip(library.package)
    with survivor(library, target.url, "orders", 1.0) as found:
        assert found.wait_for("refused", 60)
        assert "non-RabbitMQ server" in found.lines[0]["refused"]


def test_error_is_a_single_line_with_the_kind() -> None:
    assert text_of(TimeoutError()) == "TimeoutError"
    assert text_of(ValueError("two\n lines")) == "ValueError: two lines"
