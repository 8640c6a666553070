"""Qpid C++'s checklist, first part: how thresholds are read, computed, refused, and crossed.

By its names its borders hold: the gate opens below resume. By our own names it opens at resume (decision 11).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.checklist_clients import FIXED, OVERHEAD, Board, Producer, Taker

pytestmark = pytest.mark.clients

MIB = 1024 * 1024
THEIRS = {"qpid.flow_stop_count": 7, "qpid.flow_resume_count": 5}
OURS = {"stop-messages": 7, "resume-messages": 5}


@pytest.mark.parametrize(("arguments", "opens_at"), [(THEIRS, 4), (OURS, 5)], ids=["theirs", "ours"])
def test_count_limits_stop_7_resume_5(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    arguments: dict[str, object],
    opens_at: int,
) -> None:
    """Qpid C++, count limits: open up to 7, closed from 8, until 4 remain. By our names until 5 do."""
    name = queue(arguments)
    publishing, taking = producer(name), taker(name)
    for _ in range(7):
        publishing.send().settled()
        assert not board.stopped(name)
    assert publishing.waiting == 0
    publishing.send().settled()
    assert (board.stopped(name), publishing.waiting) == (True, 1)
    publishing.send().settled()
    assert (board.depth(name), board.octets(name), publishing.waiting) == (9, 9 * (FIXED + 1), 2)
    for left in range(8, opens_at, -1):
        taking.take(1)
        assert (board.depth(name), board.octets(name)) == (left, left * (FIXED + 1))
        assert board.stopped(name)
    taking.take(1)
    assert (board.depth(name), board.stopped(name)) == (opens_at, False)
    publishing.confirmed()


@pytest.mark.parametrize(
    ("arguments", "beside", "opens_at"),
    [
        ({"qpid.flow_stop_size": 700, "qpid.flow_resume_size": 460}, OVERHEAD, 450),
        ({"stop-bytes": 7000, "resume-bytes": 4600}, 0, 4600),
    ],
    ids=["theirs", "ours"],
)
def test_size_limits_stop_700_resume_460(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    arguments: dict[str, object],
    beside: int,
    opens_at: int,
) -> None:
    """Qpid C++, size limits: open at 690, closed from 730, open at 450. By its names properties and bodies count. By
    ours each message has 240 bytes of overhead besides, and so the numbers are ten times as large."""
    unit = 1 if beside else 10
    name = queue(arguments)
    publishing, taking = producer(name), taker(name)
    for size in (100, 100, 100, 40, 30, 30, 90, 100, 100):
        publishing.send(1, beside + size * unit).settled()
        assert not board.stopped(name)
    assert (board.octets(name), publishing.waiting) == (690 * unit, 0)
    for size, octets in ((40, 730), (100, 830)):
        publishing.send(1, beside + size * unit).settled()
        assert (board.octets(name), board.stopped(name)) == (octets * unit, True)
    for octets in (730, 630, 530, 490, 460, 430):
        taking.take(1)
        assert (board.octets(name), board.stopped(name)) == (octets * unit, octets * unit > opens_at)
    publishing.confirmed()


def test_arguments_of_more_than_32_bits(queue: Callable[..., str], board: Board) -> None:
    """Qpid C++, count and size limits: numbers above 2**32 are kept as they are."""
    most, stop, resume = 0x7FFFFFFFF, 0x2FFFFFFFF, 0x1FFFFFFFF
    arguments = {"qpid.max_size": most, "qpid.flow_stop_size": stop, "qpid.flow_resume_size": resume}
    assert board.marks(queue(arguments)) == ((None, most), (None, stop), (None, resume - 1))
    counts = {"qpid.max_count": most, "qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
    assert board.marks(queue(counts))[1][0] == stop


def test_gate_closes_above_either_stop_and_opens_below_both_resumes(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Qpid C++, both dimensions: closed by count alone and by size alone; size equal to its resume keeps it closed."""
    stop = {"qpid.flow_stop_count": 5, "qpid.flow_stop_size": 5000}
    name = queue(stop | {"qpid.flow_resume_count": 3, "qpid.flow_resume_size": 3000})
    publishing, taking = producer(name), taker(name)
    publishing.send(6, OVERHEAD + 300).settled()
    assert (board.stopped(name), board.octets(name)) == (True, 1800)
    taking.take(3)
    assert board.stopped(name), "3 messages are not below 3"
    taking.take(1)
    assert not board.stopped(name)
    taking.take(2)
    publishing.send(1, OVERHEAD + 3000).send(1, OVERHEAD + 3000).settled()
    assert (board.stopped(name), board.depth(name)) == (True, 2)
    taking.take(1)
    assert (board.stopped(name), board.octets(name)) == (True, 3000), "3000 bytes are not below 3000"
    taking.take(1)
    assert not board.stopped(name)
    assert board.crossings(name) == 2


@pytest.mark.parametrize(
    ("percents", "stop", "resume"), [(None, 2360001, 2064999), ((97, 73), 2861501, 2153499)], ids=["80-70", "97-73"]
)
def test_defaults_follow_from_the_brokers_limit_and_percentages(
    queue: Callable[..., str],
    board: Board,
    say: Callable[..., None],
    percents: tuple[int, int] | None,
    stop: int,
    resume: int,
) -> None:
    """Qpid C++, defaults: 2,950,001 bytes at 80/70 and 97/73; stop is rounded half up, resume
    cut off, and it opens below; no counts."""
    said: dict[str, object] = {"default-queue-limit": 2950001}
    if percents is not None:
        said |= {"default-flow-stop-threshold": percents[0], "default-flow-resume-threshold": percents[1]}
    say("broker", "", said)
    assert board.marks(queue()) == ((None, 2950001), (None, stop), (None, resume))


def test_explicit_values_override_one_by_one_and_no_limit_is_inherited_from_none(
    queue: Callable[..., str], board: Board, say: Callable[..., None]
) -> None:
    """Qpid C++, defaults: what is given wins, dimension by dimension; a default limit of 0 is none, and what would
    follow from it is not there either."""
    assert board.marks(queue({"qpid.max_size": 10000, "qpid.flow_stop_size": 9000})) == (
        (None, 10000),
        (None, 9000),
        (None, 6999),
    )
    say("broker", "", {"default-queue-limit": 0})
    assert board.marks(queue({"qpid.flow_stop_count": 12, "qpid.flow_resume_count": 6})) == (
        (None, None),
        (12, None),
        (5, None),
    )


def test_stops_of_0_are_no_flow_control(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """Qpid C++, both stops explicitly 0: nothing is withheld up to the capacity. Beyond it Qpid refuses; here the
    publish is held, for no policy was given."""
    name = queue({"qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0, "qpid.max_count": 5})
    publishing = producer(name).send(5).confirmed()
    assert (board.stopped(name), board.crossings(name)) == (False, 0)
    publishing.send().settled()
    assert (board.depth(name), publishing.waiting, publishing.nacked) == (5, 1, 0)


def test_queue_without_arguments_is_flow_controlled(queue: Callable[..., str], board: Board) -> None:
    """Qpid C++, how thresholds are computed: 100 MiB, stop at 80 and resume at 70, with no argument at all."""
    assert board.marks(queue()) == ((None, 100 * MIB), (None, 80 * MIB), (None, 70 * MIB))


@pytest.mark.parametrize(
    ("capacity", "stop", "resume"), [(1, 0, 0), (2, 1, 0), (3, 2, 1), (4, 3, 1), (5, 4, 2), (1000, 800, 699)]
)
def test_small_capacities_round_as_theirs_do_but_still_engage(
    queue: Callable[..., str], board: Board, capacity: int, stop: int, resume: int
) -> None:
    """Qpid C++, how thresholds are computed: 3 -> 2/2, 4 -> 3/2, 5 -> 4/3. It opens below, which is our resume of one
    less. There 1 and 2 stop at the capacity, and so never; here the default stop is below the capacity."""
    marks = board.marks(queue({"qpid.max_count": capacity}))
    assert [mark[0] for mark in marks] == [capacity, stop, resume]


@pytest.mark.parametrize("more", [{}, {"qpid.max_count": 1000}], ids=["alone", "with-a-capacity"])
def test_stop_count_alone_sets_the_resume_threshold(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    board: Board,
    more: dict[str, object],
) -> None:
    """Qpid C++, how thresholds are computed: stop 5 alone makes resume 5, closed at 6, open at 4. With a capacity of
    1000 they refuse (resume 700), and we do not."""
    name = queue({"qpid.flow_stop_count": 5} | more)
    publishing = producer(name).send(5).confirmed()
    publishing.send().settled()
    assert board.stopped(name)
    taking = taker(name)
    taking.take(1)
    assert board.stopped(name), "5 are not below 5"
    taking.take(1)
    assert not board.stopped(name)


def test_stop_below_the_default_resume_is_not_refused(queue: Callable[..., str], board: Board) -> None:
    """Qpid C++, how thresholds are computed: a stop of 10 MB on a default queue is refused there, as resume is 70 MiB.
    Here a default gives way to what was asked."""
    assert board.marks(queue({"qpid.flow_stop_size": 10_000_000}))[1:] == ((None, 10_000_000), (None, 9_999_999))


def test_dimension_without_a_stop_has_no_say_in_opening(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """Qpid C++, how thresholds are computed: there a defaulted resume counts although its stop is 0. Here it does not:
    the gate would be kept closed by what can never close it."""
    counts = {"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 3}
    name = queue(counts | {"qpid.max_size": 10000, "qpid.flow_stop_size": 0})
    producer(name).send(4, OVERHEAD + 2400).settled()
    assert board.stopped(name)
    taker(name).take(2)
    assert (board.octets(name), board.stopped(name)) == (4800, False)
    assert board.marks(name)[2] == (2, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 7}, "qpid.flow_resume_count=7"),
        ({"qpid.flow_stop_size": 500, "qpid.flow_resume_size": 700}, "qpid.flow_resume_size=700"),
        ({"qpid.max_count": 5, "qpid.flow_stop_count": 6}, "qpid.flow_stop_count=6"),
        ({"qpid.max_size": 500, "qpid.flow_stop_size": 600}, "qpid.flow_stop_size=600"),
        ({"default-flow-stop-threshold": 101}, "default-flow-stop-threshold=101"),
        ({"flow_stop_threshold": 50, "flow_resume_threshold": 60}, "flow_resume_threshold=60"),
    ],
)
def test_resume_above_stop_and_stop_above_the_capacity_are_refused_by_name(
    refused: Callable[[dict[str, object]], str], arguments: dict[str, object], said: str
) -> None:
    """Qpid C++, validation, and its list of what is not tested there: resume > stop, stop > max, percentages > 100."""
    assert said in refused(arguments)


def test_stop_equal_to_the_capacity_is_allowed(queue: Callable[..., str], board: Board) -> None:
    """Qpid C++, validation: stop may be the capacity itself."""
    assert board.marks(queue({"qpid.max_count": 5, "qpid.flow_stop_count": 5}))[:2] == ((5, None), (5, None))


@pytest.mark.parametrize("text", ["5", " 5 "])
def test_5_as_text_is_5(queue: Callable[..., str], board: Board, text: str) -> None:
    """Qpid C++, queue policies: a limit may be given as decimal text."""
    assert board.marks(queue({"qpid.max_count": text}))[0] == (5, None)
