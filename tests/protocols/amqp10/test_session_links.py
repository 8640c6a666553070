"""Links of a session: handles on both sides."""

from __future__ import annotations

import pytest

from penstock.errors import NotAllowed
from penstock.protocols.amqp10.session_links import HANDLE_MAX, SessionLinks
from penstock.wire.amqp10 import spec
from tests.support.amqp10_dialogue import Amqp10Dialogue, performative


def test_handle_of_the_peer_is_ours_where_it_takes_all() -> None:
    links = SessionLinks(HANDLE_MAX)
    assert [int(links.free_handle(wanted)) for wanted in (0, 7, HANDLE_MAX)] == [0, 7, HANDLE_MAX]


def test_peer_that_takes_few_handles_is_given_free_ones() -> None:
    client = Amqp10Dialogue(session=False)
    client.begin(0, handle_max=1)
    client.declare("q")
    links = client.session().links
    client.attach_receiver("q", 700)
    client.attach_receiver("q", 0)
    assert {peer: int(link.handle) for peer, link in links.by_handle.items()} == {700: 0, 0: 1}
    with pytest.raises(NotAllowed):
        links.free_handle(9)
    client.say(performative(spec.DETACH, handle=700, closed=True))
    assert int(links.free_handle(9)) == 0
    assert [links.receiver_of(link.consumer) for link in links.by_handle.values()] == list(links.by_handle.values())
