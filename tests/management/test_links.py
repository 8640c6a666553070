"""Links of protocols with credit: how they are found and explained."""

from __future__ import annotations

import pytest

from penstock.core.publish.credit_window import CreditWindow
from penstock.errors import NotFound, PreconditionFailed
from penstock.management import why
from penstock.management.links import credit_sentence, find_link
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section
from tests.support.broker_fixture import House
from tests.support.driven_connection import Dialogue
from tests.support.operation_calls import request_of
from tests.support.sender_links import OCTETS, Link, run_until_quiet


def limited(capacity: int) -> tuple[House, Link]:
    """Return a link to a queue with room for so many messages."""
    house = House()
    house.queue("q", capacity_messages=capacity)
    link = Link(house, "q", window=CreditWindow(10, message_octets=OCTETS))
    run_until_quiet(house)
    return house, link


def test_link_with_credit_says_how_much_has_its_room() -> None:
    house, link = limited(100)
    link.send(3)
    run_until_quiet(house)
    link.credit.give_back(2)
    sentence = credit_sentence(link.producer, link.credit, house.broker.now)
    assert "has credit for 5 messages; room for 5 of them is reserved in queues; its sender may send" in sentence


def test_link_without_credit_names_the_closed_gate() -> None:
    house, link = limited(4)
    while link.send(10):
        run_until_quiet(house)
    link.credit.on_flow(7)
    run_until_quiet(house)
    sentence = credit_sentence(link.producer, link.credit, house.broker.now)
    assert sentence.startswith("link link of q has no credit")
    assert "because of queue q: " in sentence
    assert sentence.endswith("; 7 messages more at its sender")


def test_link_is_found_by_its_name_or_its_full_name() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    client.attach_sender("/queues/q", 0, name="in")
    client.attach_receiver("/queues/q", 1, name="out")
    node = client.driver
    (session,) = client.connection.engine.sessions()
    for name in ("in", f"{session.name}/in"):
        assert find_link(node, name).name() == f"{session.name}/in"
    assert find_link(node, f"{session.name}/out").consumer is session.consumers["out"]
    with pytest.raises(NotFound, match="no link 'none'"):
        find_link(node, "none")
    other = Amqp10Dialogue(node)
    other.attach_sender("/queues/q", 0, name="in")
    with pytest.raises(PreconditionFailed, match="2 links have the name 'in'"):
        find_link(node, "in")


def test_consumer_of_a_channel_is_no_link() -> None:
    client = Amqp10Dialogue()
    other = Dialogue(client.driver)
    other.declare("q")
    (channel,) = other.connection.engine.sessions()
    with pytest.raises(NotFound):
        find_link(client.driver, channel.name)


def test_why_explains_a_link_that_receives() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    client.attach_sender("/queues/q", 0, name="in")
    client.attach_receiver("/queues/q", 1, name="out")
    client.say(client.transfer(data_section(b"x")))
    answer = why.answer(request_of(client.driver, link="out"), client.driver)
    (sentence,) = answer["sentences"]  # type: ignore[misc]
    assert "granted no credit" in sentence
    assert answer["link_credit"] == 0
    assert len(why.answer(request_of(client.driver, link="in"), client.driver)["sentences"]) == 1  # type: ignore[arg-type]
