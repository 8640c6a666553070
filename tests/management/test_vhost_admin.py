"""A virtual host of very many queues is deleted a share of them a turn."""

from __future__ import annotations

import json

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import NotAllowed, NotFound, ResourceLocked
from penstock.flow.work import SHARE, Steps
from penstock.management.vhost_admin import DELETION_WORK, declare_vhost, find_vhost
from penstock.protocols.amqp091.content_frames import body_of
from penstock.wire.amqp091.codec import Properties
from tests.support.driven_connection import Dialogue, make_hub, publish

MANY = 2_000


class Deletion:
    """The deletion of a virtual host `large`, which a client of / has asked for."""

    def __init__(self) -> None:
        self.hub: BrokerDriver = make_hub()
        declare_vhost(self.hub, "large")
        self.large = self.hub.broker.vhosts["large"]
        for number in range(MANY):
            self.large.declare_queue(f"q{number}", {}, False, False, None, None)
            self.large.declare_exchange(f"x{number}", "fanout", {}, False, False, False)
        self.answers = self.hub.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
        self.client = Dialogue(self.hub)
        body = json.dumps({"name": "large"}).encode()
        asked = publish("vhost.delete", body, properties=Properties(reply_to="answers"), exchange="penstock.control")
        self.hub.scheduler.begin_turn()
        self.hub.scheduler.receive(self.client.connection, asked)

    def turn(self) -> int:
        """Make a turn; return its units of work."""
        before = int(self.hub.broker.work.done)
        self.hub.run_turn()
        return int(self.hub.broker.work.done) - before

    def finish(self) -> list[int]:
        """Make turns until it is answered; return the units of each."""
        turns = []
        while not self.answers.waiting():
            assert self.client.connection.busy
            turns.append(self.turn())
        return turns


def test_a_virtual_host_of_very_many_queues_goes_a_share_a_turn_and_is_answered_when_it_is_gone() -> None:
    deletion = Deletion()
    turns = deletion.finish()
    assert len(turns) >= 2 * MANY * DELETION_WORK // SHARE
    assert max(turns) <= SHARE + 100
    assert "large" not in deletion.hub.broker.vhosts
    (answer,) = deletion.answers.ready_queue.messages()
    assert json.loads(body_of(answer.content)) == {}
    assert all(queue.deleted for queue in deletion.large.queues.values())
    assert not deletion.large.queues


def test_nobody_gets_into_a_virtual_host_that_is_being_deleted() -> None:
    deletion = Deletion()
    deletion.turn()
    left = len(deletion.large.queues)
    assert 0 < left < MANY
    with pytest.raises(NotAllowed):
        deletion.hub.broker.vhost("large")
    with pytest.raises(NotFound):
        find_vhost(deletion.hub, "large")
    with pytest.raises(ResourceLocked, match=f"is being deleted: {left:,} of its queues are left"):
        declare_vhost(deletion.hub, "large")
    deletion.finish()
    assert declare_vhost(deletion.hub, "large")
    assert not deletion.hub.broker.vhosts["large"].queues


def test_others_are_served_between_the_steps_of_a_deletion() -> None:
    deletion = Deletion()
    hub = deletion.hub
    second = hub.broker.vhosts["/"].declare_queue("second", {}, False, False, None, None)
    deletion.turn()
    left = len(deletion.large.queues)
    assert 0 < left < MANY
    hub.scheduler.start_asking(asked_for(hub))
    deletion.turn()
    assert second.deleted, "what somebody else asked for did not wait for the deletion"
    assert 0 < len(deletion.large.queues) < left


def asked_for(hub: BrokerDriver) -> Steps[None]:
    """Delete a queue in one step, in the line of those who ask."""
    hub.broker.delete_queue(hub.broker.vhosts["/"].queues["second"])
    yield


def test_a_second_deletion_finds_nothing_when_its_turn_comes() -> None:
    deletion = Deletion()
    second = Dialogue(deletion.hub)
    body = json.dumps({"name": "large"}).encode()
    asked = publish("vhost.delete", body, properties=Properties(reply_to="answers"), exchange="penstock.control")
    deletion.hub.scheduler.begin_turn()
    deletion.hub.scheduler.receive(second.connection, asked)
    while deletion.answers.waiting() < 2:
        assert second.connection.busy
        deletion.turn()
    answers = [json.loads(body_of(message.content)) for message in deletion.answers.ready_queue.messages()]
    assert [answer.get("code") for answer in answers] == [None, 404]
