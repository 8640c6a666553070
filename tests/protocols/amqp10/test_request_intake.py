"""Constant credit and the frames of requests, on links to the coordinator and to the management node."""

from __future__ import annotations

import pytest

from penstock.protocols.amqp10.coordinator_link import CoordinatorLink
from penstock.protocols.amqp10.management_link import ManagementLink
from penstock.protocols.amqp10.request_intake import WINDOW, RequestIntake
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, performative
from tests.support.amqp10_management import ManagementClient, request_message
from tests.support.amqp10_transactions import COORDINATOR, TransactionalPeer, value_section

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

    def intake(self) -> RequestIntake:
        link = self.dialogue.session().links.by_handle[self.handle]
        assert isinstance(link, CoordinatorLink | ManagementLink)
        return link.requests

    def ask(self, count: int = 1) -> list[Heard]:
        return self.dialogue.say(*(self.dialogue.transfer(self.request, self.handle) for _ in range(count)))

    def granted(self) -> tuple[int, int]:
        """Return delivery-count and credit of the last flow."""
        flow = self.dialogue.grants[0, self.handle].performative
        return flow.number("delivery_count"), flow.number("link_credit")


@pytest.fixture(params=["coordinator", "management"])
def requester(request: pytest.FixtureRequest) -> Requester:
    return Requester(request.param)


def test_intake_has_credit_from_the_attach_on(requester: Requester) -> None:
    (flow,) = [each for each in requester.attached if each.name == "flow"]
    assert flow.field("link_credit") == WINDOW


def test_intake_is_never_without_credit(requester: Requester) -> None:
    count = credit = WINDOW
    for _ in range(3):
        requester.ask(credit)
        assert requester.granted()[0] == count
        credit = requester.granted()[1]
        assert credit >= WINDOW // 2
        count += credit


def test_intake_answers_an_echo_and_grants_what_was_given_up(requester: Requester) -> None:
    say = requester.dialogue.say
    say(performative(spec.FLOW, handle=requester.handle, delivery_count=0, echo=True, **FIELDS))
    assert requester.granted() == (0, WINDOW)
    say(performative(spec.FLOW, handle=requester.handle, delivery_count=80, **FIELDS))
    assert requester.granted() == (80, WINDOW)


def test_transfer_without_credit_detaches_the_link(requester: Requester) -> None:
    requester.intake().credit = 0
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


def test_request_that_is_too_large_detaches_the_link(requester: Requester) -> None:
    (detach,) = requester.dialogue.say(requester.dialogue.transfer(bytes(70_000), requester.handle))
    assert condition(detach) == "amqp:link:message-size-exceeded"
