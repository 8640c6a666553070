"""Repeated messages: dropped exactly as often as the spool has them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pyspark_amqp.spool import duplicates
from pyspark_amqp.spool.duplicates import Duplicates

CONTENTS = st.sampled_from([b"a", b"b", b"c"])


@given(st.lists(CONTENTS), st.lists(CONTENTS), st.data())
def test_contents_pass_once_for_each_send_after_a_lost_connection(spooled, unseen, data):
    """`spooled` are in the spool; `unseen` were delivered and not written, or never delivered."""
    known = Duplicates(redelivered=True, ids=False)
    for number, content in enumerate(spooled, 1):
        known.add(number, content, None)
    acknowledged = data.draw(st.integers(0, len(spooled)))
    known.acknowledged(range(1, acknowledged + 1))
    known.expect_all()
    again = data.draw(st.permutations([*spooled[acknowledged:], *unseen]))
    passed = [content for content in again if known.recognise(content) is None]
    assert Counter(spooled) + Counter(passed) == Counter(spooled) + Counter(unseen)


def test_number_that_was_recognised_is_expected_again_after_the_next_loss():
    known = Duplicates(redelivered=True, ids=False)
    known.add(1, b"a", None)
    known.expect_all()
    assert known.recognise(b"a") == 1
    assert known.recognise(b"a") is None
    known.expect_all()
    assert known.recognise(b"a") == 1
    known.acknowledged([1])
    known.expect_all()
    assert not known.expecting


def test_settled_message_that_does_not_come_again_is_forgotten():
    known = Duplicates(redelivered=True, ids=False)
    known.add(1, b"a", None)
    known.add(2, b"b", None)
    known.expect_all()
    known.settled(1)
    assert known.recognise(b"a") == 1, "settled is not acknowledged"
    known.expect_all()
    known.expire(1)
    assert known.recognise(b"a") is None
    known.expect_all()
    assert (known.recognise(b"a"), known.recognise(b"b")) == (None, 2)


def test_message_with_an_id_is_known_after_a_lost_acknowledgement(monkeypatch):
    monkeypatch.setattr(duplicates, "ACKNOWLEDGED_MAX", 2)
    known = Duplicates(redelivered=True, ids=False)
    for number, message_id in enumerate(["x", None, "y", "z"], 1):
        known.add(number, b"%d" % number, message_id)
    known.acknowledged([1, 2, 3])
    assert [known.was_acknowledged(b"%d" % number) for number in range(1, 5)] == [True, False, True, False]
    known.acknowledged([4])
    assert [known.was_acknowledged(b"%d" % number) for number in range(1, 5)] == [False, False, True, True]


def test_ids_of_the_last_messages_count_settled_or_not(monkeypatch):
    known = Duplicates(redelivered=False, ids=True)
    known.add(1, b"", "x")
    known.add(2, b"", "y")
    assert known.has_id("x")
    assert not known.has_id(None)
    known.settled(1)
    assert (known.has_id("x"), known.has_id("y")) == (True, True)
    known.withdraw(2, "y")
    assert not known.has_id("y")
    monkeypatch.setattr(duplicates, "IDS_MAX", 2)
    for number in range(3, 7):
        known.add(number, b"", str(number))
    assert [name for name in "3456" if known.has_id(name)] == ["5", "6"]
