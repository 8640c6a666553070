"""Scrapes in slices: bounded work a slice, bounded objects an answer, and names with any characters."""

from __future__ import annotations

import pytest

from penstock.describe.metrics import CLIENTS_A_SLICE, SAMPLES_A_SLICE, Scrape, Selection
from penstock.describe.node import NodeFigures
from penstock.describe.queue import COARSE
from penstock.describe.session import SESSION
from penstock.describe.vhost import EXCHANGES
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.metrics import families_of, samples_of, scraped


def test_slice_has_a_bounded_number_of_samples(driver: BrokerDriver) -> None:
    for number in range(2500):
        driver.broker.vhosts["/"].declare_queue(f"q{number}", {}, False, False, None, None)
    slices = list(Scrape(driver, NodeFigures(), False).per_object(Selection(10_000, frozenset([COARSE]))))
    assert max(text.count("\n") for text in slices) <= SAMPLES_A_SLICE + 50
    assert len(samples_of("".join(slices))) >= 3 * 2500
    assert len(list(Scrape(driver, NodeFigures(), False).aggregated())) >= 25


@pytest.mark.parametrize("objects_max", [10_000, 75])
def test_clients_are_collected_in_slices_with_any_number_of_channels(objects_max: int) -> None:
    driver = make_driver()
    for _ in range(60):
        client = Dialogue(driver)
        for channel in (2, 3):
            client.say(method_frame(channel, spec.CHANNEL_OPEN))
    selection = Selection(objects_max, frozenset([SESSION.families[0].group]))
    slices = list(Scrape(driver, NodeFigures(), False).per_object(selection))
    assert len(slices) - 1 >= (60 + min(180, objects_max)) // (CLIENTS_A_SLICE + 4)


def test_exchanges_are_collected_in_slices(driver: BrokerDriver) -> None:
    for number in range(2 * SAMPLES_A_SLICE):
        driver.broker.vhosts["/"].declare_exchange(f"e{number}", "fanout", {}, False, False, False)
    slices = list(Scrape(driver, NodeFigures(), False).per_object(Selection(10_000, frozenset([EXCHANGES]))))
    collected = next(at for at, text in enumerate(slices) if "exchange=" in text)
    assert collected >= 2


def test_objects_beyond_the_limit_are_left_out_and_counted(driver: BrokerDriver) -> None:
    driver.broker.add_vhost("other")
    for vhost in ("/", "other"):
        for number in range(4):
            driver.broker.vhosts[vhost].declare_queue(f"q{number}", {}, False, False, None, None)
    found = samples_of(scraped(driver, Selection(5)))
    assert len([key for key in found if key[0] == "rabbitmq_queue_messages"]) == 5
    assert found[("penstock_metrics_objects_omitted", "kind=queue")] == 3
    assert samples_of(scraped(driver))[("rabbitmq_queues",)] == 8


def test_detailed_has_the_chosen_families_and_virtual_hosts_under_names_of_their_own(driver: BrokerDriver) -> None:
    driver.broker.add_vhost("other")
    for vhost in ("/", "other"):
        driver.broker.vhosts[vhost].declare_queue("q", {}, False, False, None, None)
    text = scraped(driver, Selection(10, frozenset([COARSE]), frozenset(["other"]), True))
    found = samples_of(text)
    assert ("rabbitmq_detailed_queue_messages_ready", "queue=q", "vhost=other") in found
    assert not [key for key in found if "vhost=/" in key]
    assert {name for name in families_of(text) if "queue" in name} == {
        "rabbitmq_detailed_queue_messages_ready", "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_messages",
    }  # fmt: skip


@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize("name", ["ü" * 127, '<b>"x"</b>', "a\\b", "a\nb", "{}", "x=y,z"])
def test_names_with_anything_in_them_are_read_back(name: str, openmetrics: bool, driver: BrokerDriver) -> None:
    driver.broker.vhosts["/"].declare_queue(name, {}, False, False, None, None)
    found = samples_of(scraped(driver, Selection(10), openmetrics), openmetrics)
    assert found[("rabbitmq_queue_messages", f"queue={name}", "vhost=/")] == 0


def test_queue_deleted_during_a_scrape_is_omitted_afterwards(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    for number in range(SAMPLES_A_SLICE + 1):
        vhost.declare_queue(f"q{number}", {}, False, False, None, None)
    slices = Scrape(driver, NodeFigures(), False).per_object(Selection(10_000, frozenset([COARSE])))
    text = ""
    while "queue_messages_unacked" not in text:
        text += next(slices)
    driver.broker.delete_queue(vhost.queues["q1"])
    found = samples_of(text + "".join(slices))
    assert ("rabbitmq_queue_messages_ready", "queue=q1", "vhost=/") in found
    assert ("rabbitmq_queue_messages_unacked", "queue=q1", "vhost=/") not in found


def test_aggregated_answer_is_read_in_both_formats_and_has_the_same_samples(driver: BrokerDriver) -> None:
    assert samples_of(scraped(driver)).keys() == samples_of(scraped(driver, openmetrics=True), True).keys()
