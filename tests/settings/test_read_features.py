"""Fixed features of a queue: type, priorities, single active consumer."""

from __future__ import annotations

import pytest

from penstock.errors import NotImplementedHere, PreconditionFailed
from penstock.settings.read import read_features


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-max-priority": 256}, "x-max-priority=256 is not between 0 and 255"),
        ({"x-max-priority": -1}, "x-max-priority=-1 is not between 0 and 255"),
        ({"x-max-priority": "5"}, "x-max-priority='5' is not a whole number"),
        ({"x-single-active-consumer": 1}, "x-single-active-consumer=1 is neither true nor false"),
        ({"x-queue-type": "lazy"}, "x-queue-type=lazy is not known; known are classic and quorum"),
        ({"x-queue-type": "quorum", "x-max-priority": 5}, "invalid arg 'x-max-priority' for a queue of type quorum"),
    ],
)
def test_what_a_queue_cannot_be_is_refused_in_a_sentence(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_features("q", arguments)
    assert f"queue 'q': {said}" in str(caught.value)


def test_stream_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(NotImplementedHere, match="a cursor reads a queue again and again"):
        read_features("q", {"x-queue-type": "stream"})
