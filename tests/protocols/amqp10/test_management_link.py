"""The two links to the management node: pairing, credit, bounds and their end."""

from __future__ import annotations

from penstock.protocols.amqp10.management_link import REQUEST_OCTETS_MAX, RESPONSES_MAX
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, names, performative
from tests.support.amqp10_management import MANAGEMENT, ManagementClient, request_message
from tests.support.amqp10_messages import delivered


def test_pair_is_attached_with_credit_and_says_so() -> None:
    client = ManagementClient()
    attaches = [each for each in client.attached if each.name == "attach"]
    assert [each.performative.mapping("properties") for each in attaches] == [{Symbol("paired"): True}] * 2
    assert attaches[0].field("max_message_size") == REQUEST_OCTETS_MAX


def test_unsettled_request_is_accepted_and_answered() -> None:
    client = ManagementClient()
    heard = client.dialogue.say(client.dialogue.transfer(request_message("PUT", "/queues/q", {}), 20))
    assert sorted(names(heard)) == ["disposition", "transfer"]
    assert "q" in client.dialogue.driver.broker.vhosts["/"].queues


def test_request_without_a_paired_link_is_rejected_or_ends_its_link() -> None:
    dialogue = Amqp10Dialogue()
    dialogue.attach_sender(MANAGEMENT, 20)
    dialogue.attach_receiver(MANAGEMENT, 21, credit=1)  # Another name.
    message = request_message("PUT", "/queues/q", {})
    (answer,) = dialogue.say(dialogue.transfer(message, 20))
    assert condition(answer) == "amqp:precondition-failed"
    (detach,) = dialogue.say(dialogue.transfer(message, 20, settled=True))
    assert (detach.name, condition(detach)) == ("detach", "amqp:precondition-failed")
    assert dialogue.driver.broker.vhosts["/"].queues == {}


def test_responses_wait_for_credit_up_to_a_bound() -> None:
    dialogue = Amqp10Dialogue()
    dialogue.attach_sender(MANAGEMENT, 20, name="pair")
    dialogue.attach_receiver(MANAGEMENT, 21, name="pair")
    for _ in range(RESPONSES_MAX + 5):
        dialogue.say(dialogue.transfer(request_message("GET", "/queues/q"), 20, settled=True))
    (queue,) = dialogue.driver.broker.vhosts["/"].replies.values()
    assert queue.waiting() == RESPONSES_MAX
    assert len(delivered(dialogue.flow(21, 7))) == 7


def test_nothing_is_left_of_a_pair_that_is_detached() -> None:
    client = ManagementClient()
    client.ask("GET", "/queues/q")
    vhost = client.dialogue.driver.broker.vhosts["/"]
    assert len(vhost.replies) == 1
    assert vhost.queues == {}
    detaches = [performative(spec.DETACH, handle=handle, closed=True) for handle in (21, 20)]
    assert names(client.dialogue.say(*detaches)) == ["detach", "detach"]
    assert vhost.replies == {}


def test_nothing_is_left_of_a_pair_whose_connection_ends() -> None:
    client = ManagementClient()
    client.dialogue.say(performative(spec.CLOSE))
    assert client.dialogue.driver.broker.vhosts["/"].replies == {}
