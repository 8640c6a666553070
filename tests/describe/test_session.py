"""Sessions and their producers in the form of RabbitMQ's management API.

Metrics of connections and channels.

Consumers in the form of RabbitMQ's management API.
"""

from __future__ import annotations

from typing import Any

from penstock.describe.list_kinds import CONSUMERS
from penstock.describe.lists import collected_steps
from penstock.describe.metrics import Scrape, Selection
from penstock.describe.node import NodeFigures
from penstock.describe.queue import queue_in_full
from penstock.describe.session import CONNECTION, CONSUMER, SESSION, session_in_full
from penstock.describe.table import reading
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import finish
from penstock.wire.amqp091 import spec as amqp091_spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.blocked_producers import BlockedProducers
from tests.support.driven_connection import Dialogue, drain, make_driver, publish
from tests.support.metrics import samples_of, scraped


def test_row_of_a_session_has_its_protocol_and_its_links() -> None:
    client = Amqp10Dialogue().declare("q")
    client.attach_sender("/queues/q", 0, name="in")
    client.attach_receiver("/queues/q", 1, credit=5, name="out")
    assert CONNECTION.row(client.connection, reading(client.driver))["protocol"] == "AMQP 1.0"
    (session,) = client.connection.engine.sessions()
    found: Any = session_in_full(session, reading(client.driver))
    assert [link["name"] for link in found["penstock"]["links"]] == [f"{session.name}/in"]
    assert found["consumer_details"][0]["penstock"]["link_credit"] == 5


def test_row_of_a_session_that_only_receives_publishes_nothing() -> None:
    client = Amqp10Dialogue()
    (session,) = client.connection.engine.sessions()
    receiving: Any = session_in_full(session, reading(client.driver))
    client.attach_sender("/queues/q", 0)
    client.declare("q")
    client.attach_sender("/queues/q", 1)
    sending: Any = session_in_full(session, reading(client.driver))
    of_a_link = ("links", "more_links", "credit")
    nothing = {name: value for name, value in sending["penstock"].items() if name not in of_a_link}
    assert receiving["penstock"] == nothing
    assert (nothing["held"], nothing["withheld"]) == ({"messages": 0, "bytes": 0}, 0)


def test_row_of_a_channel_has_no_links() -> None:
    client = Dialogue(Amqp10Dialogue().driver)
    (channel,) = client.connection.engine.sessions()
    found: Any = session_in_full(channel, reading(client.driver))
    assert "links" not in found["penstock"]


def test_row_of_a_blocked_channel_has_the_state_flow() -> None:
    client = Dialogue(make_driver()).declare("q", capacity_messages=10, stop_messages=0, resume_messages=0).confirm()
    client.say(method_frame(2, amqp091_spec.CHANNEL_OPEN) + publish("q", b"1"))

    def states() -> list[object]:
        sessions = client.connection.engine.sessions()
        return [SESSION.row(session, reading(client.driver))["state"] for session in sessions]

    assert states() == ["flow", "running"]
    assert CONNECTION.row(client.connection, reading(client.driver))["state"] == "blocked"
    drain(client.driver, "q")
    client.listen()
    assert states() == ["running", "running"]
    assert CONNECTION.row(client.connection, reading(client.driver))["state"] == "running"


def test_channels_show_withheld_and_connections_held_publishes() -> None:
    rig = BlockedProducers()
    for _ in range(5):
        rig.do("publish", 0, "orders")
    rig.do("publish", 1, "orders")
    found = samples_of(scraped(rig.driver, Selection(100)))
    summed = samples_of(scraped(rig.driver))
    for name, value in (
        ("penstock_channel_confirms_withheld", 2.0),
        ("rabbitmq_channel_messages_unconfirmed", 3.0),
        ("penstock_connection_held_messages", 1.0),
        ("penstock_connection_blocked", 2.0),
        ("rabbitmq_connection_channels", 4.0),
    ):
        assert sum(each for key, each in found.items() if key[0] == name) == value, name
        assert summed[(name,)] == value
    connection = rig.producers[1].connection.name()
    assert found[("penstock_connection_held_messages", f"connection={connection}", "vhost=/")] == 1


def test_sums_of_bytes_include_ended_connections(driver: BrokerDriver) -> None:
    names = [
        f"rabbitmq_connection_{way}_{what}_total" for way in ("incoming", "outgoing") for what in ("bytes", "packets")
    ]
    clients = [Dialogue(driver) for _ in range(3)]
    before = samples_of(scraped(driver))
    per_object = samples_of(scraped(driver, Selection(100)))
    for name in names:
        assert before[(name,)] > 0
        assert before[(name,)] == sum(value for key, value in per_object.items() if key[0] == name)
    driver.disconnect(clients[0].connection)
    after = samples_of(scraped(driver))
    assert [after[(name,)] for name in names] == [before[(name,)] for name in names]


def test_connection_that_ends_during_a_scrape_is_counted_once(driver: BrokerDriver) -> None:
    clients = [Dialogue(driver) for _ in range(120)]
    whole = samples_of(scraped(driver))
    scrape = Scrape(driver, NodeFigures(), False)
    slices = scrape.aggregated()
    text = [next(slices), next(slices), next(slices)]
    for client in clients:
        driver.disconnect(client.connection)
    text += slices
    name = ("rabbitmq_connection_incoming_bytes_total",)
    assert samples_of("".join(text))[name] == whole[name] == samples_of(scraped(driver))[name]


def test_browsers_are_listed_and_marked() -> None:
    client = Amqp10Dialogue().declare("q", **{"x-single-active-consumer": True})
    browse = composite(spec.SOURCE, address="/queues/q", distribution_mode="copy")
    client.attach_receiver(None, 1, credit=5, source=browse, name="looks")
    client.attach_receiver("/queues/q", 2, credit=5, name="takes")
    items = finish(collected_steps(client.driver, CONSUMERS, None))
    listed: Any = [CONSUMER.row(item.subject, reading(client.driver)) for item in items]  # type: ignore[arg-type]
    assert [(each["consumer_tag"], each["penstock"]["browses"], each["active"]) for each in listed] == [
        ("takes", False, True),
        ("looks", True, True),
    ]
    queue: Any = queue_in_full(client.driver.broker.vhosts["/"].queues["q"], reading(client.driver))
    assert (queue["consumers"], len(queue["consumer_details"])) == (1, 2), "a browser is no consumer of its queue"
