"""The sampler: sums of virtual hosts, users and the node, in slices, while connections open and close."""

from __future__ import annotations

import pytest

from penstock.describe import stats_sampler
from penstock.describe.stats_sampler import DAY
from penstock.driver.driver import BrokerDriver
from penstock.flow.series import SLOT_S
from penstock.operations.vhosts import declare_vhost, delete_vhost
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10.spec import DETACH
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section, performative
from tests.support.driven_connection import Dialogue, make_driver, publish, sampled


def counted(driver: BrokerDriver) -> dict[str, tuple[int, int, int, int]]:
    """Publishes, confirms, deliveries and acknowledgements of each sum."""
    sums = {"node": driver.stats.node, "/": driver.stats.vhosts["/"], "guest": driver.stats.users["guest"]}
    found = {}
    for name, each in sums.items():
        tally = each.tally
        found[name] = int(tally.publish), int(tally.confirm), int(tally.deliver), int(tally.ack)
    return found


def busy(driver: BrokerDriver, messages: int) -> Dialogue:
    """A client that has published and received so many messages, and acknowledged one."""
    client = Dialogue(driver)
    client.confirm()
    client.say(method_frame(1, spec.BASIC_CONSUME, queue="q"))
    client.say(publish("q", b"x") * messages)
    client.say(method_frame(1, spec.BASIC_ACK, delivery_tag=1))
    return client


def test_sums_are_those_of_open_and_closed_connections(driver: BrokerDriver) -> None:
    Dialogue(driver).declare("q")
    one = busy(driver, 5)
    one.say(method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0))
    sampled(driver, 1)
    assert set(counted(driver).values()) == {(5, 5, 5, 1)}
    driver.disconnect(one.connection)
    driver.run_turn()
    other = busy(driver, 2)
    sampled(driver, 2)
    expected = counted(driver)
    assert expected["/"][:2] == (7, 7)
    driver.disconnect(other.connection)
    sampled(driver, 3)
    assert counted(driver) == expected


def test_sampler_sets_the_rates_of_bytes(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    traffic = client.connection.peer.traffic
    sampled(driver, 1)
    before = int(traffic.received)
    frames = publish("q", b"x" * 1000)
    client.connection.receive(frames)
    sampled(driver, 2)
    assert traffic.received_rate == (int(traffic.received) - before) / SLOT_S == len(frames) / SLOT_S
    sampled(driver, 3)
    assert (traffic.received_rate, traffic.sent_rate) == (0.0, 0.0)


def test_sums_count_a_connection_once_that_closes_during_a_pass(driver: BrokerDriver) -> None:
    Dialogue(driver).declare("q")
    clients = [busy(driver, 3) for _ in range(3)]
    driver.begin(SLOT_S)
    driver.stats.tick(driver.connections)
    driver.stats.work(1, SLOT_S)
    assert driver.stats.has_more()
    for client in clients:
        driver.disconnect(client.connection)
    while driver.stats.has_more():
        driver.stats.work(1, SLOT_S)
    assert {each[:2] for each in counted(driver).values()} == {(9, 9)}


def test_pass_is_due_every_slot_and_visits_in_slices(driver: BrokerDriver) -> None:
    for number in range(100):
        driver.broker.vhosts["/"].declare_queue(f"q{number}", {}, False, False, None, None)
    driver.begin(SLOT_S - 0.1)
    driver.stats.tick(driver.connections)
    assert not driver.stats.has_more()
    driver.begin(SLOT_S)
    driver.stats.tick(driver.connections)
    slices = 0
    while driver.stats.has_more():
        assert driver.stats.work(5, SLOT_S) <= 20
        slices += 1
    assert slices > 3
    assert all(queue.counters.series is None for queue in driver.broker.vhosts["/"].queues.values())


def test_series_beyond_the_most_have_rates_only(monkeypatch: pytest.MonkeyPatch) -> None:
    if stats_sampler.__file__.endswith(".so"):
        pytest.skip("a constant of the compiled form cannot be changed")
    monkeypatch.setattr(stats_sampler, "SERIES_MOST", 2)
    driver = make_driver()
    client = Dialogue(driver)
    for name in "abcd":
        client.declare(name)
        client.say(publish(name, b"x"))
    sampled(driver, 1)
    series = [queue.counters.series for queue in driver.broker.vhosts["/"].queues.values()]
    assert sum(each is not None and each.is_stored for each in series) == 0, "the channel and its connection came first"
    assert [each is not None and each.rate(0) for each in series] == [0.2] * 4


@pytest.mark.parametrize("late", [0, 3])
def test_history_of_an_idle_queue_is_forgotten_after_a_day_even_if_that_pass_is_late(late: int) -> None:
    driver = make_driver()
    client = Dialogue(driver).declare("q")
    client.say(publish("q", b"x"))
    sampled(driver, 1)
    series = driver.broker.vhosts["/"].queues["q"].counters.series
    assert series is not None
    sampled(driver, 2)
    assert series.values(0, 0) == [0, 1, 0]
    sampled(driver, DAY)
    assert series._columns.count(None) < len(series._columns)
    sampled(driver, 1 + DAY + late)
    assert series._columns.count(None) == len(series._columns), "its memory is free again"
    assert series.values(0, 1) == [0] * 60


def test_publishes_of_a_link_stay_counted_after_its_detach() -> None:
    client = Amqp10Dialogue().declare("q")
    client.attach_sender("/queues/q", 0)
    client.say(client.transfer(data_section(b"x")))
    client.say(performative(DETACH, handle=0, closed=True))
    sampled(client.driver, 1)
    (session,) = client.connection.engine.sessions()
    assert (int(session.tally.publish), int(session.tally.confirm)) == (1, 1)
    assert counted(client.driver)["node"][:2] == (1, 1)


def published(driver: BrokerDriver, messages: int) -> Dialogue:
    """Return a client that has published so many messages in the first slot."""
    client = Dialogue(driver).declare("q")
    client.say(publish("q", b"x") * messages)
    sampled(driver, 1)
    return client


def test_deleted_virtual_host_stays_in_the_sum_of_the_node(driver: BrokerDriver) -> None:
    client = published(driver, 3)
    driver.disconnect(client.connection)
    sampled(driver, 2)
    delete_vhost(driver, "/")
    sampled(driver, 3)
    assert int(driver.stats.node.tally.publish) == 3
    assert driver.stats.vhosts == {}


def test_virtual_host_that_is_deleted_during_a_pass_stays_in_the_sum_of_the_node(driver: BrokerDriver) -> None:
    published(driver, 3)
    driver.begin(2 * SLOT_S)
    driver.stats.tick(driver.connections)
    assert driver.stats.has_more()
    delete_vhost(driver, "/")
    while driver.stats.has_more():
        driver.stats.work(1, 2 * SLOT_S)
    assert int(driver.stats.node.tally.publish) == 3


def test_virtual_host_that_is_created_again_begins_at_nothing(driver: BrokerDriver) -> None:
    published(driver, 3)
    delete_vhost(driver, "/")
    declare_vhost(driver, "/")
    sampled(driver, 2)
    again = driver.stats.vhosts["/"]
    assert (int(again.tally.publish), again.series) == (0, None)
    node = driver.stats.node
    assert int(node.tally.publish) == 3
    assert node.series.rate(0) == 0.0, "nothing that was counted is taken back"
