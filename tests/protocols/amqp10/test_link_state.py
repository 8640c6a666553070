"""States of a link: the table has each of them, and permits no way back."""

from __future__ import annotations

import pytest

from penstock.errors import InternalError
from penstock.protocols.amqp10.link_state import LINK_STATES, LinkState


def test_detached_link_stays_detached() -> None:
    for state in LinkState:
        with pytest.raises(InternalError):
            LINK_STATES.move(LinkState.DETACHED, state)


def test_link_may_be_detached_from_every_other_state() -> None:
    for state in (LinkState.ATTACHED, LinkState.DETACH_SENT):
        assert LINK_STATES.move(state, LinkState.DETACHED) is LinkState.DETACHED
