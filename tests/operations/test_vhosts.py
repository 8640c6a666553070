"""A virtual host of very many queues is deleted a share of them a turn."""

from __future__ import annotations

import json

import pytest

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotAllowed, NotFound, ResourceLocked
from penstock.flow.work import SHARE, Steps
from penstock.operations.vhosts import DELETION_WORK, declare_vhost
from penstock.protocols.amqp091.content_frames import body_of
from tests.support.driven_connection import Dialogue, make_driver, publish

MANY = 2_000


class Deletion:
    """The deletion of a virtual host `large`, which a client of / has asked for."""

    def __init__(self) -> None:
        self.driver: BrokerDriver = make_driver()
        declare_vhost(self.driver, "large")
        self.large = self.driver.broker.vhosts["large"]
        for number in range(MANY):
            self.large.declare_queue(f"q{number}", {}, False, False, None, None)
            self.large.declare_exchange(f"x{number}", "fanout", {}, False, False, False)
        self.answers = self.driver.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
        self.client = Dialogue(self.driver)
        body = json.dumps({"name": "large"}).encode()
        asked = publish("vhost.delete", body, properties=Properties(reply_to="answers"), exchange="penstock.control")
        self.driver.scheduler.begin_turn()
        self.driver.scheduler.receive(self.client.connection, asked)

    def turn(self) -> int:
        """Make a turn; return its units of work."""
        before = int(self.driver.broker.work.done)
        self.driver.run_turn()
        return int(self.driver.broker.work.done) - before

    def finish(self) -> list[int]:
        """Make turns until it is answered; return the units of each."""
        turns = []
        while not self.answers.waiting():
            assert self.client.connection.busy
            turns.append(self.turn())
        return turns


def test_virtual_host_of_many_queues_is_deleted_in_slices_before_its_answer() -> None:
    deletion = Deletion()
    turns = deletion.finish()
    assert len(turns) >= 2 * MANY * DELETION_WORK // SHARE
    assert max(turns) <= SHARE + 100
    assert "large" not in deletion.driver.broker.vhosts
    (answer,) = deletion.answers.ready_queue.messages()
    assert json.loads(body_of(answer.content)) == {}
    assert all(queue.deleted for queue in deletion.large.queues.values())
    assert not deletion.large.queues


def test_virtual_host_being_deleted_refuses_new_connections() -> None:
    deletion = Deletion()
    deletion.turn()
    left = len(deletion.large.queues)
    assert 0 < left < MANY
    with pytest.raises(NotAllowed):
        deletion.driver.broker.vhost("large")
    with pytest.raises(NotFound):
        deletion.driver.vhost("large")
    with pytest.raises(ResourceLocked, match=f"is being deleted by job 1: {left:,} of its queues are left"):
        declare_vhost(deletion.driver, "large")
    deletion.finish()
    assert declare_vhost(deletion.driver, "large")
    assert not deletion.driver.broker.vhosts["large"].queues


def test_other_requests_are_served_between_the_steps_of_a_deletion() -> None:
    deletion = Deletion()
    driver = deletion.driver
    second = driver.broker.vhosts["/"].declare_queue("second", {}, False, False, None, None)
    deletion.turn()
    left = len(deletion.large.queues)
    assert 0 < left < MANY
    driver.scheduler.start_asking(asked_for(driver))
    deletion.turn()
    assert second.deleted, "what somebody else asked for did not wait for the deletion"
    assert 0 < len(deletion.large.queues) < left


def asked_for(driver: BrokerDriver) -> Steps[None]:
    """Delete a queue in one step, in the line of those who ask."""
    driver.broker.delete_queue(driver.broker.vhosts["/"].queues["second"])
    yield


def test_second_deletion_finds_nothing_when_its_turn_comes() -> None:
    deletion = Deletion()
    second = Dialogue(deletion.driver)
    body = json.dumps({"name": "large"}).encode()
    asked = publish("vhost.delete", body, properties=Properties(reply_to="answers"), exchange="penstock.control")
    deletion.driver.scheduler.begin_turn()
    deletion.driver.scheduler.receive(second.connection, asked)
    while deletion.answers.waiting() < 2:
        assert second.connection.busy
        deletion.turn()
    answers = [json.loads(body_of(message.content)) for message in deletion.answers.ready_queue.messages()]
    assert [answer.get("code") for answer in answers] == [None, 404]
