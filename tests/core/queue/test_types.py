"""Types of queues: features and flags of declarations, and the default type of a virtual host."""

from __future__ import annotations

import itertools

import pytest

from penstock.core.queue.ready_queue import Priorities
from penstock.core.queue.types import (
    AUTO_DELETE,
    CLASSIC,
    EXCLUSIVE,
    NON_DURABLE,
    PLAIN,
    QUORUM,
    STREAM,
    TYPES,
    QueueType,
    check_flags,
    default_type,
    find_type,
    read_features,
    with_default_type,
)
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED

TOY = QueueType("toy", "toy_queues", aliases=("play",), refused_flags=(AUTO_DELETE,), refused_arguments=("x-expires",))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-max-priority": 256}, "x-max-priority must be a whole number from 0 to 255, not 256"),
        ({"x-max-priority": -1}, "x-max-priority must be a whole number from 0 to 255, not -1"),
        ({"x-max-priority": "5"}, "x-max-priority must be a whole number from 0 to 255, not '5'"),
        ({"x-single-active-consumer": 1}, "x-single-active-consumer must be true or false, not 1"),
        ({"x-queue-type": "lazy"}, "x-queue-type must be classic, quorum or stream, not 'lazy'"),
        ({"x-queue-type": "quorum", "x-max-priority": 5}, "invalid arg 'x-max-priority' for a queue of type quorum"),
    ],
)
def test_impossible_queue_features_are_refused_in_a_sentence(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_features("q", arguments)
    assert f"queue 'q': {said}" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["x-message-ttl", "x-expires", "x-max-length", "x-overflow", "x-max-priority", "x-single-active-consumer",
     "capacity-bytes", "qpid.max_size", "x-dead-letter-exchange", "x-delivery-limit"],
)  # fmt: skip
def test_stream_refuses_settings_of_a_depth(name: str) -> None:
    value: object = {"x-max-priority": 5, "x-single-active-consumer": True}.get(name, 5)
    with pytest.raises(PreconditionFailed, match=rf"^queue 'q': invalid arg '{name}' for a queue of type stream$"):
        read_features("q", {"x-queue-type": "stream", name: value})


@pytest.mark.parametrize(
    "name",
    ["x-max-age", "x-max-length-bytes", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes",
     "x-initial-cluster-size", "x-queue-leader-locator", "x-anything"],
)  # fmt: skip
def test_stream_accepts_arguments_of_rabbitmqs_streams_and_unknown_ones(name: str) -> None:
    assert read_features("q", {"x-queue-type": "stream", name: 5}).type is STREAM


def test_unknown_type_is_refused_with_the_names_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TYPES, TOY.name, TOY)
    with pytest.raises(PreconditionFailed, match=r"x-queue-type must be classic, quorum, stream or toy, not 'lazy'$"):
        read_features("q", {"x-queue-type": "lazy"})
    assert read_features("q", {"x-queue-type": "play"}).type is TOY
    with pytest.raises(PreconditionFailed, match=r"^queue 'q': invalid arg 'x-expires' for a queue of type toy$"):
        read_features("q", {"x-queue-type": "toy", "x-expires": 5})


def test_types_have_different_names_and_values() -> None:
    values = [value for row in TYPES.values() for value in (row.name, *row.aliases)]
    assert len(values) == len(set(values))
    assert [find_type(value) for value in TYPES] == list(TYPES.values())
    assert find_type("default") is CLASSIC
    assert find_type(5) is None
    assert len({row.apply_to for row in TYPES.values()}) == len(TYPES)


@pytest.mark.parametrize("row", TYPES.values(), ids=list(TYPES))
def test_flags_are_refused_as_the_row_of_the_type_has_them(row: QueueType) -> None:
    features = read_features("q", {"x-queue-type": row.name})
    for durable, auto_delete, exclusive in itertools.product((True, False), repeat=3):
        given = [(not durable, NON_DURABLE), (auto_delete, AUTO_DELETE), (exclusive, EXCLUSIVE)]
        refused = [flag for there, flag in given if there and flag in row.refused_flags]
        if not refused:
            check_flags("q", features, durable, auto_delete, exclusive)
            continue
        with pytest.raises(PreconditionFailed) as caught:
            check_flags("q", features, durable, auto_delete, exclusive)
        assert str(caught.value) == f"queue 'q': invalid property '{refused[0]}' for a queue of type {row.name}"


def test_row_gives_delivery_limit_and_ready_queue() -> None:
    assert (CLASSIC.delivery_limit, QUORUM.delivery_limit) == (UNLIMITED, 20)
    assert isinstance(CLASSIC.ready(5), Priorities)
    assert not isinstance(QUORUM.ready(0), Priorities)
    assert (CLASSIC.counts_returns, QUORUM.counts_returns) == (False, True)


def test_queue_without_features_is_classic() -> None:
    assert read_features("q", {"x-max-length": 5}) is PLAIN
    assert PLAIN.type is CLASSIC


@pytest.mark.parametrize(
    ("arguments", "flags", "expected"),
    [
        ({}, (True, False, False), {"x-queue-type": "quorum"}),
        ({"x-max-length": 5}, (True, False, False), {"x-max-length": 5, "x-queue-type": "quorum"}),
        ({"x-queue-type": None}, (True, False, False), {"x-queue-type": "quorum"}),
        ({"x-queue-type": "classic"}, (True, False, False), {"x-queue-type": "classic"}),
        ({}, (False, False, False), {}),
        ({}, (True, True, False), {}),
        ({}, (True, False, True), {}),
    ],
)
def test_default_type_is_added_where_its_flags_permit(
    arguments: dict[str, object], flags: tuple[bool, bool, bool], expected: dict[str, object]
) -> None:
    before = dict(arguments)
    assert with_default_type(arguments, QUORUM, *flags) == expected
    assert arguments == before
    assert with_default_type(arguments, CLASSIC, *flags) is arguments


@pytest.mark.parametrize(
    ("value", "expected"),
    [("quorum", QUORUM), ("classic", CLASSIC), ("stream", STREAM), ("lazy", CLASSIC), (None, CLASSIC), (5, CLASSIC)],
)
def test_default_type_of_attributes_is_one_that_exists(value: object, expected: QueueType) -> None:
    assert default_type({"default_queue_type": value}) is expected
    assert default_type({}) is CLASSIC
