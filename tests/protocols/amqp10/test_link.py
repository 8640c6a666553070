"""Links: detach from both sides.

States of a link: the table has each of them, and permits no way back.
"""

from __future__ import annotations

import pytest

from penstock.errors import InternalError, NotFound
from penstock.protocols.amqp10.link import LINK_STATES, LinkState
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, data_section, names


@pytest.fixture
def client() -> Amqp10Dialogue:
    return Amqp10Dialogue().declare("q")


def test_detach_is_answered_and_the_handle_is_free_again(client: Amqp10Dialogue) -> None:
    for _ in range(2):
        client.attach_receiver("/queues/q", 5)
        (detached,) = client.detach(5)
        assert (detached.name, detached.field("closed"), detached.field("error")) == ("detach", True, None)


def test_handle_of_a_link_is_refused_to_another(client: Amqp10Dialogue) -> None:
    client.attach_receiver("/queues/q", 5)
    (ended,) = client.attach_receiver("/queues/q", 5, name="another")
    assert (ended.name, condition(ended)) == ("end", "amqp:session:handle-in-use")


def test_queue_deletion_detaches_the_receivers(client: Amqp10Dialogue) -> None:
    client.attach_receiver("/queues/q", 5)
    client.driver.broker.delete_queue(client.vhost.queues["q"])
    (detached,) = client.listen()
    assert (detached.name, condition(detached)) == ("detach", "amqp:resource-deleted")
    assert client.detach(5) == []


def test_detaches_that_cross_free_the_handle(client: Amqp10Dialogue) -> None:
    client.attach_receiver("/queues/q", 5)
    client.driver.broker.delete_queue(client.vhost.queues["q"])
    (detached,) = client.detach(5)
    assert detached.name == "detach"
    client.declare("q")
    assert names(client.attach_receiver("/queues/q", 5)) == ["attach"]


def test_frames_of_a_detached_link_are_ignored_until_the_peers_detach(client: Amqp10Dialogue) -> None:
    client.attach_sender("/queues/q", 5)
    link = client.session().links.by_handle[5]
    link.detach(NotFound("gone"))
    (detached,) = client.listen()
    assert (detached.name, condition(detached)) == ("detach", "amqp:not-found")
    assert client.say(client.transfer(data_section(b"x"), handle=5)) == []
    assert client.flow(5, 1) == []
    assert client.detach(5) == []
    (ended,) = client.say(client.transfer(data_section(b"x"), handle=5))
    assert condition(ended) == "amqp:session:unattached-handle"


def test_handle_above_ours_closes_the_connection() -> None:
    client = Amqp10Dialogue()
    (closed,) = client.attach_sender("/queues/q", 1024)
    assert (closed.name, condition(closed)) == ("close", "amqp:connection:framing-error")


def test_echo_of_a_link_is_answered_once_and_asks_for_none(client: Amqp10Dialogue) -> None:
    client.attach_receiver("/queues/q", 5)
    client.attach_sender("/queues/q", 6)
    for handle in (5, 6):
        heard = client.flow(handle, 1, echo=True)
        (flow,) = heard or [client.grants.pop((0, 6))]
        assert (flow.field("handle"), flow.field("echo")) == (handle, False)
        assert client.flow(handle, 1) == []
        assert client.grants == {}


def test_detached_link_stays_detached() -> None:
    for state in LinkState:
        with pytest.raises(InternalError):
            LINK_STATES.move(LinkState.DETACHED, state)


def test_link_may_be_detached_from_every_state() -> None:
    for state in (LinkState.ATTACHED, LinkState.DETACH_SENT):
        assert LINK_STATES.move(state, LinkState.DETACHED) is LinkState.DETACHED
