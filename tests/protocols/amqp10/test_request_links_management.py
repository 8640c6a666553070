"""The two links to the management node: pairing, credit, bounds and their end.

Constant credit and the frames of requests, on links to the coordinator and to the management node.
"""

from __future__ import annotations

import pytest

from penstock.protocols.amqp10.request_links import (
    REQUEST_OCTETS_MAX,
    RESPONSE_BYTES_MAX,
    RESPONSES_MAX,
    WINDOW,
    RequestLink,
)
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, names, performative
from tests.support.amqp10_management import MANAGEMENT, ManagementClient, request_message
from tests.support.amqp10_messages import delivered
from tests.support.amqp10_transactions import COORDINATOR, TransactionalPeer, value_section


def test_pair_is_attached_with_credit_and_a_paired_property() -> None:
    client = ManagementClient()
    attaches = [each for each in client.attached if each.name == "attach"]
    assert [each.performative.mapping("properties") for each in attaches] == [{Symbol("paired"): True}] * 2
    assert attaches[0].field("max_message_size") == REQUEST_OCTETS_MAX


def test_unsettled_request_is_accepted_and_answered() -> None:
    client = ManagementClient()
    heard = client.dialogue.say(client.dialogue.transfer(request_message("PUT", "/queues/q", {}), 20))
    assert sorted(names(heard)) == ["disposition", "transfer"]
    assert "q" in client.dialogue.vhost.queues


def test_request_without_a_paired_link_is_rejected_or_ends_the_link() -> None:
    dialogue = Amqp10Dialogue()
    dialogue.attach_sender(MANAGEMENT, 20)
    dialogue.attach_receiver(MANAGEMENT, 21, credit=1)  # Another name.
    message = request_message("PUT", "/queues/q", {})
    (answer,) = dialogue.say(dialogue.transfer(message, 20))
    assert condition(answer) == "amqp:precondition-failed"
    (detach,) = dialogue.say(dialogue.transfer(message, 20, settled=True))
    assert (detach.name, condition(detach)) == ("detach", "amqp:precondition-failed")
    assert dialogue.vhost.queues == {}


def test_responses_wait_for_credit_up_to_a_bound() -> None:
    dialogue = Amqp10Dialogue()
    dialogue.attach_sender(MANAGEMENT, 20, name="pair")
    dialogue.attach_receiver(MANAGEMENT, 21, name="pair")
    for _ in range(RESPONSES_MAX + 5):
        dialogue.say(dialogue.transfer(request_message("GET", "/queues/q"), 20, settled=True))
    (queue,) = dialogue.vhost.replies.values()
    assert queue.waiting() == RESPONSES_MAX
    assert len(delivered(dialogue.flow(21, 7))) == 7


def test_large_responses_wait_for_credit_up_to_a_bound_of_bytes() -> None:
    dialogue = Amqp10Dialogue()
    queue = dialogue.vhost.declare_queue("q", {}, False, False, None, None)
    for number in range(500):
        dialogue.vhost.bind("amq.direct", queue, None, "k", {"number": number})
    dialogue.attach_sender(MANAGEMENT, 20, name="pair")
    dialogue.attach_receiver(MANAGEMENT, 21, name="pair")
    request = request_message("GET", "/bindings?src=amq.direct&dstq=q&key=k")
    for _ in range(100):
        dialogue.say(dialogue.transfer(request, 20, settled=True))
    (responses,) = dialogue.vhost.replies.values()
    assert 1 < responses.waiting() < 100
    assert RESPONSE_BYTES_MAX <= responses.bytes < 2 * RESPONSE_BYTES_MAX


def test_detached_management_pair_leaves_no_queue() -> None:
    client = ManagementClient()
    client.ask("GET", "/queues/q")
    vhost = client.dialogue.vhost
    assert len(vhost.replies) == 1
    assert vhost.queues == {}
    detaches = [performative(spec.DETACH, handle=handle, closed=True) for handle in (21, 20)]
    assert names(client.dialogue.say(*detaches)) == ["detach", "detach"]
    assert vhost.replies == {}


def test_management_pair_whose_connection_ends_leaves_no_queue() -> None:
    client = ManagementClient()
    client.dialogue.say(performative(spec.CLOSE))
    assert client.dialogue.vhost.replies == {}


FIELDS = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}


class Requester:
    """A client with a link to the broker itself, and what it was told at the attach."""

    def __init__(self, kind: str) -> None:
        self.dialogue: Amqp10Dialogue
        if kind == "coordinator":
            peer = TransactionalPeer()
            self.dialogue, self.handle, self.attached = peer, COORDINATOR, peer.attached
            self.request = value_section(composite(spec.DECLARE))
        else:
            client = ManagementClient()
            self.dialogue, self.handle, self.attached = client.dialogue, 20, client.attached
            self.request = request_message("GET", "/queues/none")

    def link(self) -> RequestLink:
        link = self.dialogue.session().links.by_handle[self.handle]
        assert isinstance(link, RequestLink)
        return link

    def ask(self, count: int = 1) -> list[Heard]:
        return self.dialogue.say(*(self.dialogue.transfer(self.request, self.handle) for _ in range(count)))

    def granted(self) -> tuple[int, int]:
        """Return delivery-count and credit of the last flow."""
        flow = self.dialogue.grants[0, self.handle].performative
        return flow.number("delivery_count"), flow.number("link_credit")


@pytest.fixture(params=["coordinator", "management"])
def requester(request: pytest.FixtureRequest) -> Requester:
    return Requester(request.param)


def test_request_link_has_credit_from_the_attach_on(requester: Requester) -> None:
    (flow,) = [each for each in requester.attached if each.name == "flow"]
    assert flow.field("link_credit") == WINDOW


def test_request_link_is_never_without_credit(requester: Requester) -> None:
    count = credit = WINDOW
    for _ in range(3):
        requester.ask(credit)
        assert requester.granted()[0] == count
        credit = requester.granted()[1]
        assert credit >= WINDOW // 2
        count += credit


def test_request_link_answers_an_echo_and_restores_given_up_credit(requester: Requester) -> None:
    say = requester.dialogue.say
    say(performative(spec.FLOW, handle=requester.handle, delivery_count=0, echo=True, **FIELDS))
    assert requester.granted() == (0, WINDOW)
    say(performative(spec.FLOW, handle=requester.handle, delivery_count=80, **FIELDS))
    assert requester.granted() == (80, WINDOW)


def test_transfer_without_credit_detaches_the_link(requester: Requester) -> None:
    requester.link().credit = 0
    (detach,) = requester.ask()
    assert (detach.name, condition(detach)) == ("detach", "amqp:link:transfer-limit-exceeded")


def test_request_of_several_frames_is_answered_once(requester: Requester) -> None:
    say, transfer, request = requester.dialogue.say, requester.dialogue.transfer, requester.request
    assert say(transfer(request[:7], requester.handle, more=True)) == []
    assert [each.name for each in say(performative(spec.TRANSFER, 0, request[7:], handle=requester.handle))].count(
        "disposition"
    ) == 1


def test_aborted_request_is_dropped(requester: Requester) -> None:
    say, transfer, request = requester.dialogue.say, requester.dialogue.transfer, requester.request
    say(transfer(request[:7], requester.handle, more=True))
    assert say(performative(spec.TRANSFER, 0, handle=requester.handle, aborted=True)) == []
    assert [each.name for each in requester.ask()].count("disposition") == 1


def test_request_beyond_the_limit_detaches_the_link(requester: Requester) -> None:
    (detach,) = requester.dialogue.say(requester.dialogue.transfer(bytes(70_000), requester.handle))
    assert condition(detach) == "amqp:link:message-size-exceeded"
