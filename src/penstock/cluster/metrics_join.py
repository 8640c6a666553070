"""Join of metrics: answers of several sources as one, family by family, where each sample has its source's label.

A family must be in one piece, with one head. All sources write their families in one order, of which each may leave
some out. So the answers are merged as sorted lists are. A source is read only in its turn, so that no more than the
piece that has arrived is in memory: sources that wait are held by their sockets.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Final

from penstock.cluster.shard_http import ShardCut
from penstock.describe.exposition import Family
from penstock.describe.metrics import AGGREGATED, PER_OBJECT

Order = dict[bytes, int]
"""Places of families by the name in their heads."""
LINE_BYTES_MOST: Final = 64 * 1024
"""Most bytes of a line: its names have some hundred characters each."""
HELP: Final = b"# HELP "
END: Final = b"# EOF\n"
WITH_LABELS: Final = re.compile(rb"(?m)^([a-zA-Z_:]\w*)\{")
WITHOUT_LABELS: Final = re.compile(rb"(?m)^([a-zA-Z_:]\w*) ")
DETAILED: Final = ("rabbitmq_", "rabbitmq_detailed_")
"""Beginning of names, and the one that `/metrics/detailed` has in its place."""


class BadAnswer(Exception):
    """Answer that is not the text of metrics."""


def order_of(tables: Sequence[Sequence[Family]]) -> Order:
    """Return the places of families, under their names in both formats and in detailed answers."""
    order: Order = {}
    for family in [family for families in tables for family in families]:
        for name in (family.name, family.base()):
            for shown in (name, name.replace(*DETAILED, 1)):
                order.setdefault(shown.encode(), len(order))
    return order


OF_SUMS: Final = order_of(AGGREGATED)
OF_OBJECTS: Final = order_of(PER_OBJECT)


class Source:
    """Answer of one source, which is read family by family."""

    def __init__(
        self, label: bytes, parts: AsyncIterator[bytes], order: Order, without: Collection[bytes] = ()
    ) -> None:
        """`label` is added to each sample; empty for none. Families `without` are left out."""
        self._parts = parts
        self._order = order
        self._without = without
        self._first = rb"\1{%b," % label
        self._only = rb"\1{%b} " % label
        self._has_label = bool(label)
        self._text = b""
        self._at = 0
        """Place in the text up to which it is read."""
        self._ended = False
        self.head = b""
        """Head of the present family, which no sample has been read of; empty after the last."""
        self.name = b""
        """Its name."""
        self.place: tuple[int, int] = (-1, 0)
        """Its place: that of the last family in the order, and the number of unknown families since."""

    async def begin(self) -> None:
        """Read up to the first family. Raises BadAnswer, and what the source raises."""
        await self._next_head()

    async def samples(self) -> AsyncIterator[bytes]:
        """Read the samples of the present family, some lines at a time, up to the next family."""
        while True:
            end = self._end_of_family()
            if end < 0:
                end = self._text.rfind(b"\n") + 1
                if end > self._at:
                    yield self._labelled(self._take(end))
                elif not await self._read():
                    break
                continue
            if end > self._at:
                yield self._labelled(self._take(end))
            break
        await self._next_head()

    def _end_of_family(self) -> int:
        """Return where the next head begins in the text, or the end of all; -1 if neither is there yet."""
        if self._text.startswith(b"#", self._at):
            return self._at
        found = self._text.find(b"\n#", self._at)
        return found + 1 if found >= 0 else -1

    async def _next_head(self) -> None:
        while True:
            head = await self._line()
            if not head or head == END:
                self.head = self.name = b""
                return
            kind = await self._line()
            name, _, _ = head.removeprefix(HELP).partition(b" ")
            if not head.startswith(HELP) or not kind.startswith(b"# TYPE "):
                raise BadAnswer("a family of metrics begins without its description and kind")
            if name not in self._without:
                break
            await self._skip_samples()
        place = self._order.get(name)
        self.place = (self.place[0], self.place[1] + 1) if place is None else (place, 0)
        self.name, self.head = name, head + kind

    async def _skip_samples(self) -> None:
        while self._at < len(self._text) or await self._read():
            if self._text.startswith(b"#", self._at):
                return
            await self._line()

    async def _line(self) -> bytes:
        """Return the next line; empty at the end. Raises BadAnswer."""
        while (end := self._text.find(b"\n", self._at)) < 0:
            if not await self._read():
                if self._at < len(self._text):
                    raise BadAnswer("the metrics end within a line")
                return b""
        return self._take(end + 1)

    async def _read(self) -> bool:
        """Read a piece; return whether there was one. Raises BadAnswer."""
        if self._ended:
            return False
        if len(self._text) - self._at > LINE_BYTES_MOST and self._text.find(b"\n", self._at) < 0:
            raise BadAnswer(f"a line of metrics has more than {LINE_BYTES_MOST:,} bytes")
        part = await anext(self._parts, None)
        if part is None:
            self._ended = True
            return False
        self._text, self._at = self._text[self._at :] + part, 0
        return True

    def _take(self, end: int) -> bytes:
        taken = self._text[self._at : end]
        self._at = end
        return taken

    def _labelled(self, lines: bytes) -> bytes:
        if not self._has_label:
            return lines
        return WITHOUT_LABELS.sub(self._only, WITH_LABELS.sub(self._first, lines))


Failed = Callable[[Source, Exception], None]
"""Function that is told of a source that ended too early; its families so far stay in the answer."""


async def joined(sources: Sequence[Source], failed: Failed) -> AsyncIterator[bytes]:
    """Yield the families of all sources, which have begun. The end of OpenMetrics is left to the caller."""
    written: set[bytes] = set()
    left = [source for source in sources if source.head]
    while left:
        first = min(left, key=lambda source: source.place)
        if first.name not in written:  # Families out of order get no second head.
            written.add(first.name)
            yield first.head
        for source in [each for each in left if each.name == first.name]:
            try:
                async for lines in source.samples():
                    yield lines
            except (ShardCut, BadAnswer) as error:
                source.head = b""
                failed(source, error)
        left = [source for source in left if source.head]
