"""Settings of a link's credit: the link overrides its queues, and queues override the broker."""

from __future__ import annotations

import pytest

from penstock.core.publish.credit_window import CreditSettings
from penstock.core.queue.queue import Queue
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.settings.read import read_link_properties
from tests.support.broker_fixture import House

NEVER = float("inf")


def found(house: House, *names: str, **properties: object) -> tuple[int, int, float]:
    """The settings of a link to these queues with these properties."""
    queues: list[Queue] = [house.vhost.queues[name] for name in names]
    words = read_link_properties("l", {name.replace("_", "-"): value for name, value in properties.items()})
    settings = CreditSettings(house.broker.table, queues, words)
    return int(settings.messages), int(settings.bytes), settings.idle_s


def test_credit_window_by_default_is_1000_messages_1_mib_and_100_ms(house: House) -> None:
    house.queue("a")
    assert found(house) == found(house, "a") == (1000, 1 << 20, 0.1)


def test_credit_settings_of_link_queue_pattern_and_broker_override_in_this_order(house: House) -> None:
    house.set("broker", "", credit_window_messages=500, credit_idle=5)
    house.set("queue", "b.#", credit_window_messages=400, credit_window_bytes="64KiB")
    house.queue("a")
    house.queue("b.one")
    house.queue("b.two", credit_window_messages=7, credit_idle=2)
    assert found(house) == found(house, "a") == (500, 1 << 20, 5.0)
    assert found(house, "b.one") == (400, 65536, 5.0)
    assert found(house, "b.two") == (7, 65536, 2.0)
    assert found(house, "b.two", credit_window_messages=9, credit_idle=3) == (9, 65536, 2.0)
    assert found(house, "b.two", credit_idle=0.02) == (7, 65536, 0.02)


def test_smallest_of_several_queues_counts(house: House) -> None:
    house.queue("a", credit_window_messages=10, credit_window_bytes=1000)
    house.queue("b", credit_window_messages=20, credit_window_bytes=500, credit_idle=0.05)
    assert found(house, "a", "b") == (10, 500, 0.05)


def test_names_of_artemis_are_known_and_minus_1_is_no_limit(house: House) -> None:
    house.queue("a", producerWindowSize=-1, amqpCredits=10)
    assert found(house, "a") == (10, UNLIMITED, 0.1)
    assert found(house, "a", producerWindowSize=4096, credit_idle="none") == (10, 4096, 0.1)
    house.queue("b", credit_idle=0)
    assert found(house, "b") == (1000, 1 << 20, NEVER)


def test_window_without_a_message_and_a_misspelt_property_are_refused(house: House) -> None:
    with pytest.raises(PreconditionFailed, match="credit-window-messages must be a whole number from 1, not 0"):
        house.queue("a", credit_window_messages=0)
    with pytest.raises(PreconditionFailed, match="did you mean credit-window-messages"):
        house.queue("a", credit_window_message=10)
    with pytest.raises(PreconditionFailed, match="did you mean credit-idle"):
        found(house, credit_idel=1)
    assert found(house, product="Qpid") == (1000, 1 << 20, 0.1)


def test_window_of_a_link_has_bounds_and_the_assumed_size_of_a_message(house: House) -> None:
    house.queue("a", credit_window_messages=50, credit_window_bytes=10_000)
    window = CreditSettings(house.broker.table, [house.vhost.queues["a"]], {}).window(760)
    assert (int(window.charge), int(window.wanted(0))) == (1000, 10)
