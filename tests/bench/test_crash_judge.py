"""The judge of the crash test on hand-made histories: violations are reported, permitted histories are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from bench.crash.cursors import Cursor, Row
from bench.crash.history import Copy, Fate, History, Settlement, Transaction, Wipe
from bench.crash.judge import Found, Judge, Verdict, carry_on
from bench.crash.promises import Promises

SECOND = 1_000_000_000
ALL = Promises()
FEW = Promises(dead_letters=False)
AT = 100 * SECOND
"""When it is judged."""


def message(number: int, *places: str, taken: int = 2, **more: object) -> Copy:
    """A persistent message of publisher 1.0, sent at 1 and confirmed at `taken`."""
    found = Copy(f"1.0.{number}", "1.0", number, places or ("q",), 10, sent=1, taken=taken)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def there(copy: Copy, queue: str = "q", redelivered: bool = False, body: bytes | None = None, at: int = AT) -> Found:
    """The message as it is found after the restart."""
    whole = copy.body() if body is None else body
    return Found(queue, copy.name, redelivered, whole, None, copy.persistent, at)


def history_of(*copies: Copy, promises: Promises = ALL) -> History:
    history = History(promises)
    history.add(copies)
    return history


def judged(history: History, found: Iterable[Found], promises: Promises = ALL) -> Verdict:
    return Judge(history, promises, AT).judge(found)


def kinds(history: History, *found: Found, promises: Promises = ALL) -> list[str]:
    return [violation.kind for violation in judged(history, found, promises).violations]


def acked(queue: str = "q", **more: bool) -> Settlement:
    return Settlement(queue, **more)


def test_confirmed_messages_in_order_are_no_violation() -> None:
    copies = [message(number) for number in (1, 2, 3)]
    assert kinds(history_of(*copies), *map(there, copies)) == []


CONFIRMED, SENT = message(1), message(1, taken=0)
DELIVERED = message(1, delivered="q")
SURE = message(1, delivered="q", settlement=acked(sure=True))
TRANSIENT = message(1, persistent=False, delivered="q", settlement=acked())
HEADED = message(1, headers=True)
SHORT = message(1, lifetime=SECOND)


@pytest.mark.parametrize(
    ("copy", "found", "broken"),
    [
        (CONFIRMED, [there(message(7)), there(CONFIRMED)], ["back"]),
        (CONFIRMED, [there(CONFIRMED), there(CONFIRMED, redelivered=True)], ["duplicate"]),
        (CONFIRMED, [there(CONFIRMED, body=b"x" * 10)], ["altered"]),
        (CONFIRMED, [there(CONFIRMED, body=CONFIRMED.body()[:-1])], ["altered"]),
        (SENT, [], []),
        (SENT, [there(SENT)], []),
        (SENT, [there(SENT), there(SENT)], ["duplicate"]),
        (DELIVERED, [], ["lost"]),
        (DELIVERED, [there(DELIVERED, redelivered=True)], []),
        (SURE, [], []),
        (SURE, [there(SURE, redelivered=True)], ["acknowledged back"]),
        (TRANSIENT, [], []),
        (TRANSIENT, [there(TRANSIENT, redelivered=True)], ["back"]),
        (HEADED, [there(HEADED)], ["altered"]),
        (HEADED, [there(HEADED)._replace(number=1)], []),
        (HEADED, [there(HEADED)._replace(number=1, persistent=False)], ["altered"]),
        (SHORT, [there(SHORT, at=2 * SECOND)], []),
        (SHORT, [there(SHORT)], ["expired"]),
        (message(1, "q", "dead"), [there(message(1, "q", "dead"), "dead")], ["misplaced"]),
    ],
)
def test_message_is_judged_by_its_history(copy: Copy, found: list[Found], broken: list[str]) -> None:
    assert kinds(history_of(copy), *found) == broken


def test_confirmed_message_that_is_not_there_is_lost() -> None:
    kept, lost = message(1), message(2)
    verdict = judged(history_of(kept, lost), [there(kept)])
    assert [(v.kind, lost.name in v.text) for v in verdict.violations] == [("lost", True)]


def test_transient_message_does_not_outlive_its_broker_where_that_is_promised() -> None:
    copy = message(1, "paged.0", persistent=False)
    assert kinds(history_of(copy)) == []
    assert kinds(history_of(copy), there(copy, "paged.0")) == ["back"]
    some = Promises(transients=False)
    assert kinds(history_of(copy), promises=some) == []
    assert kinds(history_of(copy), there(copy, "paged.0"), promises=some) == []


def test_wrong_order_of_one_publisher_in_one_queue_is_reported() -> None:
    first, second = message(1), message(2)
    assert kinds(history_of(first, second), there(second), there(first)) == ["order"]


def test_messages_of_two_publishers_need_no_common_order() -> None:
    first, other = message(2), message(1, publisher="1.1", name="1.1.1")
    assert kinds(history_of(first, other), there(first), there(other)) == []


def test_acknowledgement_in_doubt_may_be_undone_if_the_message_says_so() -> None:
    copy = message(1, delivered="q", settlement=acked())
    assert kinds(history_of(copy)) == []
    assert kinds(history_of(copy), there(copy, redelivered=True)) == []
    assert kinds(history_of(copy), there(copy)) == ["unmarked"]
    assert kinds(history_of(copy), there(copy), promises=Promises(marks=False)) == []


def commit(fate: Fate, published: list[Copy], settled: list[Copy]) -> History:
    """A transaction, and everything that it is about."""
    transaction = Transaction("t", fate, published, settled)
    for copy in published:
        copy.transaction, copy.taken = transaction, 0
    for copy in settled:
        copy.settlement = Settlement("q", transaction=transaction, sure=fate == Fate.COMMITTED)
    history = history_of(*published, *settled)
    history.transactions.append(transaction)
    return history


def transaction(fate: Fate) -> tuple[History, Copy, Copy, Copy]:
    one, other, taken = message(1, "out"), message(2, "out"), message(3, "q", delivered="q")
    return commit(fate, [one, other], [taken]), one, other, taken


def test_transaction_in_doubt_is_there_in_full_or_not_at_all() -> None:
    history, one, other, taken = transaction(Fate.SENT)
    assert kinds(history, there(one, "out"), there(other, "out")) == []
    assert kinds(history, there(taken, redelivered=True)) == []


@pytest.mark.parametrize(
    "pick",
    [
        lambda one, other, taken: [there(one, "out")],
        lambda one, other, taken: [there(one, "out"), there(other, "out"), there(taken, redelivered=True)],
        lambda one, other, taken: [],
    ],
    ids=["one of two messages", "messages without their acknowledgement", "the acknowledgement without messages"],
)
def test_half_a_transaction_is_reported(pick: Callable[[Copy, Copy, Copy], list[Found]]) -> None:
    history, *copies = transaction(Fate.SENT)
    assert kinds(history, *pick(*copies)) == ["half transaction"]
    assert kinds(history, *pick(*copies), promises=Promises(transactions=False)) == []


def test_message_consumed_from_a_transaction_is_no_sign_of_a_half_commit() -> None:
    history, one, other, _ = transaction(Fate.SENT)
    other.settlement = acked("out")
    assert kinds(history, there(one, "out")) == []


def test_committed_transaction_is_there() -> None:
    history, one, other, taken = transaction(Fate.COMMITTED)
    assert kinds(history, there(one, "out"), there(other, "out")) == []
    assert kinds(history, there(one, "out")) == ["lost"]
    everything = there(one, "out"), there(other, "out"), there(taken, redelivered=True)
    assert kinds(history, *everything) == ["acknowledged back"]


@pytest.mark.parametrize("fate", [Fate.OPEN, Fate.ROLLED_BACK])
def test_uncommitted_transaction_leaves_no_trace(fate: Fate) -> None:
    history, one, _, taken = transaction(fate)
    assert kinds(history, there(taken, redelivered=True)) == []
    assert kinds(history, there(one, "out"), there(taken, redelivered=True)) == ["back"]
    assert kinds(history) == ["lost"]


def wiped(copy: Copy, wipe: Wipe) -> History:
    history = history_of(copy)
    history.wipes.append(wipe)
    return history


def test_purged_message_that_returns_is_a_violation_once_the_purge_is_answered() -> None:
    copy = message(1)
    history = wiped(copy, Wipe("q", begun=5, answered=True, ended=6))
    assert kinds(history) == []
    assert kinds(history, there(copy)) == ["back"]
    assert kinds(history, there(copy), promises=Promises(wipes=False)) == []


@pytest.mark.parametrize(
    ("copy", "wipe"),
    [
        (message(1), Wipe("q", begun=5)),
        (message(1, taken=5), Wipe("q", begun=4, answered=True, ended=9)),
        (message(1, sent=3, taken=20), Wipe("q", begun=1, answered=True, ended=9)),
        (message(1, sent=30, taken=40), Wipe("q", begun=1, answered=True)),
    ],
    ids=["not answered", "confirmed meanwhile", "sent meanwhile", "deleted and not declared again"],
)
def test_message_of_an_unanswered_purge_or_deletion_may_be_there_or_not(copy: Copy, wipe: Wipe) -> None:
    assert kinds(wiped(copy, wipe)) == []
    assert kinds(wiped(copy, wipe), there(copy)) == []


def test_message_published_after_a_purge_must_be_there() -> None:
    copy = message(1, sent=10, taken=20)
    assert kinds(wiped(copy, Wipe("q", begun=5, answered=True, ended=6))) == ["lost"]


def test_message_may_go_when_its_time_is_up_and_not_before() -> None:
    short, long = message(1, lifetime=SECOND), message(2, lifetime=1000 * SECOND)
    assert kinds(history_of(short)) == []
    assert kinds(history_of(long)) == ["lost"]


def test_dead_letter_is_in_one_of_its_two_queues() -> None:
    copy = message(1, "q", "dead", lifetime=SECOND)
    assert kinds(history_of(copy), there(copy, "dead")) == []
    assert kinds(history_of(copy)) == ["lost"]
    assert kinds(history_of(copy), promises=FEW) == []
    assert kinds(history_of(copy), there(copy, at=2), there(copy, "dead")) == ["duplicate"]
    assert kinds(history_of(copy), there(copy, "dead"), there(copy, "dead")) == ["duplicate"]
    assert kinds(history_of(copy), there(copy, "dead"), there(copy, "dead"), promises=FEW) == []


def test_rejected_message_is_in_one_of_its_two_queues() -> None:
    copy = message(1, "q", "dead", delivered="q", settlement=acked(rejected=True))
    assert kinds(history_of(copy), there(copy, "dead")) == []
    assert kinds(history_of(copy), there(copy, redelivered=True)) == []
    assert kinds(history_of(copy)) == ["lost"]
    copy.settlement = acked(rejected=True, sure=True)
    assert kinds(history_of(copy), there(copy, redelivered=True)) == ["acknowledged back"]


def test_messages_found_on_the_disk_begin_the_next_round() -> None:
    unconfirmed, gone = message(1, taken=0), message(2, delivered="q", settlement=acked())
    history = history_of(unconfirmed, gone)
    carry_on(history, judged(history, [there(unconfirmed)]))
    assert kinds(history) == ["lost"], "it was seen on the disk, so it is there for good"
    assert kinds(history, there(unconfirmed, redelivered=True), there(gone, redelivered=True)) == ["back"]


def test_dead_letters_keep_the_order_in_which_they_were_found() -> None:
    later, earlier = (message(n, "q", "dead", settlement=acked(rejected=True)) for n in (2, 1))
    history = history_of(later, earlier)
    found = [there(later, "dead", at=5), there(earlier, "dead", at=6)]
    carry_on(history, judged(history, found))
    assert kinds(history, *found) == []
    assert kinds(history, *reversed(found)) == ["order"]


def test_acknowledgement_is_sure_across_queues_only_if_promised() -> None:
    for promises, sure in ((Promises(), True), (Promises(settled_across_queues=False), False)):
        settlement = acked()
        history_of(promises=promises).assure([settlement], "other")
        assert settlement.sure == sure
        history_of(promises=promises).assure([settlement], "q")
        assert settlement.sure


def test_deliveries_under_load_are_judged_too() -> None:
    copy = message(1)
    history = history_of(copy)
    assert history.delivered("q", copy.name, False, copy.body()) is copy
    history.delivered("q", copy.name, False, copy.body())
    copy.settlement = acked(sure=True)
    history.delivered("q", copy.name, True, b"other")
    history.delivered("q", "1.0.99", False, b"")
    assert [v.kind for v in history.violations] == ["unmarked", "altered", "acknowledged back", "invented"]


def test_message_of_an_open_transaction_is_not_given_out() -> None:
    history, one, _, _ = transaction(Fate.OPEN)
    history.delivered("out", one.name, False, one.body())
    assert [v.kind for v in history.violations] == ["half transaction"]


def test_offset_that_was_in_use_is_not_used_again() -> None:
    cursor, old = Cursor("read"), message(1, "read")
    history = history_of(old)
    cursor.saw(Row(5, old.name, b""), old, history)
    cursor.saw_tail(5)
    cursor.saw(Row(5, old.name, b""), old, history)
    assert history.violations == []
    cursor.saw(Row(6, old.name, b""), old, history)
    new = message(2, "read", sent=1 << 62)
    cursor.saw(Row(5, new.name, b""), new, history)
    assert [v.kind for v in history.violations] == ["offset", "offset"]
    cursor.saw(Row(7, message(3).name, b""), new, history)
    assert len(history.violations) == 2
