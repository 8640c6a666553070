"""What the broker's log tells about a gate and those whom it blocks."""

from demo.watch import Span, story, user_of

LOG = """\
2026-11-20 10:00:00,000 [con:4(pika@127.0.0.1:4711/)/ch:1] CHN-1005 : Flow Control Enforced (Queue other)
2026-11-20 10:00:01,500 [vh(/)/qu(flights)] QUE-1003 : Overfull : Size : 3,355,746 bytes, Capacity : 3,355,443, Messages : 9,559, Message Capacity : -1
2026-11-20 10:00:01,500 [con:4(pika@127.0.0.1:4711/)/ch:1] CHN-1005 : Flow Control Enforced (Queue flights)
something else
2026-11-20 10:00:02,250 [vh(/)/qu(flights)] QUE-1004 : Underfull : Size : 1,645,528 bytes, Resume Capacity : 2,936,012, Messages : 4,686, Message Capacity : -1
2026-11-20 10:00:02,250 [con:4(pika@127.0.0.1:4711/)/ch:1] CHN-1006 : Flow Control Removed
2026-11-20 10:00:03,000 [vh(/)/qu(flights)] QUE-1003 : Overfull : Size : 3,355,500 bytes, Capacity : 3,355,443, Messages : 9,558, Message Capacity : -1
2026-11-20 10:00:03,000 [con:5(py-amqp@127.0.0.1:4712/)/ch:1] CHN-1005 : Flow Control Enforced (Queue flights)
""".splitlines()  # noqa: E501


def test_log_tells_crossings_closed_times_and_who_was_blocked():
    begun = story(LOG, "flights", 0.0).crossings[0][0]
    told = story(LOG, "flights", begun + 10)
    assert [(at - begun, octets) for at, octets in told.crossings] == [(0, 3355746), (0.75, 1645528), (1.5, 3355500)]
    assert told.closed == [Span(begun, begun + 0.75), Span(begun + 1.5, begun + 10)]
    assert told.blocked == {"pika": [Span(begun, begun + 0.75)], "py-amqp": [Span(begun + 1.5, begun + 10)]}


def test_another_queues_crossings_are_passed_over():
    assert story(LOG, "flight", 0.0).crossings == []


def test_name_without_a_user_is_kept_whole():
    assert user_of("someone") == "someone"
