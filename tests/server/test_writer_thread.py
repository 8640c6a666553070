"""Writer thread: order, the size of a write, and the end."""

from __future__ import annotations

import threading

from penstock.server.writer_thread import ITEMS_AT_ONCE, WriterThread


class Sink:
    """Writes of a thread; a write waits until it is permitted."""

    def __init__(self) -> None:
        self.writes: list[list[int]] = []
        self.began = threading.Event()
        self.may_end = threading.Event()

    def write(self, items: list[int]) -> None:
        self.writes.append(items)
        self.began.set()
        assert self.may_end.wait(60)


def test_items_are_written_in_order_and_together_while_the_writer_is_busy() -> None:
    sink = Sink()
    thread: WriterThread[int] = WriterThread("writer", sink.write, 60)
    thread.start()
    thread.add([0])
    assert sink.began.wait(60)
    for number in range(1, ITEMS_AT_ONCE + 2):
        thread.add([number])
    sink.may_end.set()
    thread.end()
    assert not thread.is_alive()
    assert [len(items) for items in sink.writes] == [1, ITEMS_AT_ONCE, 1]
    assert [item for items in sink.writes for item in items] == list(range(ITEMS_AT_ONCE + 2))


def test_end_leaves_a_writer_that_hangs() -> None:
    sink = Sink()
    thread: WriterThread[int] = WriterThread("writer", sink.write, 0.01)
    thread.start()
    thread.add([0])
    assert sink.began.wait(60)
    thread.end()
    assert thread.is_alive()
    sink.may_end.set()


def test_end_of_an_unstarted_writer_does_nothing() -> None:
    thread: WriterThread[int] = WriterThread("writer", Sink().write, 60)
    thread.add([0])
    thread.end()
    assert list(thread.waiting) == [0]
