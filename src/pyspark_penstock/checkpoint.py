"""Comparison of a checkpoint's offset with the positions of the cursor and its queues.

A mismatch ends the query with one sentence, or is reported and left out (``failOnDataLoss=false``).
"""

import re
from collections.abc import Mapping
from typing import Any

from pyspark_penstock.attachment import WARNED_MAX, Attachment
from pyspark_penstock.errors import CursorError
from pyspark_penstock.logs import LOG
from pyspark_penstock.offsets import Positions, advanced, ahead, filled, lost
from pyspark_penstock.options import SourceOptions

_GONE = "it was deleted, has expired (cursor-expires), or its broker was restarted without a store"
_WITH_SERVER = re.compile(r".+@[^@]+:\d{1,5}")


class Checkpoint:
    """Checks of the offsets that Spark's checkpoint gives."""

    def __init__(self, options: SourceOptions, attachment: Attachment) -> None:
        """Store the options and the attachment that offsets are compared with."""
        self._options, self._attachment = options, attachment
        self._warned: set[str] = set()

    def begin(self, start: Positions, generations: Mapping[str, int], end: Positions | None = None) -> Positions:
        """Return the positions after which reading continues: the valid positions of `start`, and the present positions
        of other queues.

        Raises `CursorError` if the checkpoint needs messages that the cursor has settled, belongs to another cursor, or
        is beyond the end of a queue, or if the batch's `end` is.
        """
        sound = self.sound(start, generations)
        beyond = advanced(sound, self.sound(end or {}, self._attachment.generations))
        for gap in ahead(beyond, self._attachment.tail):
            raise CursorError(
                f"the checkpoint has read '{gap.key}' up to {gap.hi}, but the queue ends at {gap.lo}: it is another "
                "queue, or its broker lost it; begin with a new checkpoint and a new cursor"
            )
        cursor = self._options.cursor
        for gap in lost(sound, self._attachment.standing):
            self._lose(
                f"messages {gap.lo + 1} to {gap.hi} of '{gap.key}' are gone: cursor '{cursor}' settled them",
                " for another checkpoint; onNewCheckpoint=continue begins a new checkpoint after them, and "
                "failOnDataLoss=false continues after them",
                "going on after them",
            )
        present = {**self._attachment.places, **self._attachment.left}
        return filled(sound, {key: self._attachment.standing[key] for key in present})

    def check_cursor(self, start: Positions, former: str) -> None:
        """Check that an attach finds the cursor with which a checkpoint was written; `former` is the name of that
        cursor.

        Without that cursor nothing proves that a queue of the same name is the queue of the checkpoint: a broker
        without a store forgets both. Settling up to the checkpoint's position could then drop messages unread. Raises
        `CursorError` with failOnDataLoss.
        """
        attachment = self._attachment
        for server in attachment.missing():
            answer = attachment.answers.get(server)
            if not former or answer is None or not answer["created"]:
                continue
            read = {key: start.get(key, 0) for key, place in attachment.places.items() if place.server == server}
            read = {key: position for key, position in sorted(read.items()) if position}
            if not read or (former != self._options.cursor and attachment.has_cursor(server, former)):
                continue
            key, position = next(iter(read.items()))
            self._lose(
                f"cursor '{former}', with which the checkpoint has read '{key}' up to {position}, does not exist at "
                f"{server}",
                f": {_ended(answer, former)}; begin with a new checkpoint, or set "
                "failOnDataLoss=false if the queue is the same one, to continue after that position",
                "continuing after that position",
            )

    def sound(self, start: Positions, generations: Mapping[str, int]) -> Positions:
        """Return the positions of `start` on queues of the cursor that are still the same queues."""
        attachment = self._attachment
        known = {**attachment.places, **attachment.left}
        self._check_strangers(start)
        found = {}
        for key in start:
            if key not in known:
                continue
            if generations.get(key, 0) != attachment.generations.get(key, 0) and start[key] > 0:
                self._lose(
                    f"queue '{key}', which the checkpoint has read up to {start[key]}, was deleted and declared anew",
                    "; begin with a new checkpoint and a new cursor, or set failOnDataLoss=false to read the new one",
                    "reading the new one from its start",
                    fatal=self._options.subscription.pattern is None,
                )
            else:
                found[key] = start[key]
        return found

    def _check_strangers(self, start: Positions) -> None:
        """Check the keys without a position of the cursor."""
        attachment = self._attachment
        away = tuple(f"@{server}" for server in attachment.missing() if server not in attachment.answers)
        known = {**attachment.places, **attachment.left}
        strangers = sorted(key for key in start if key not in known and not (away and key.endswith(away)))
        if not strangers:
            return
        servers = self._options.access.servers
        shown = ", ".join(f"'{key}'" for key in strangers[:3])
        if len(servers) > 1 and not any(_WITH_SERVER.fullmatch(key) for key in start):
            raise CursorError(
                f"the checkpoint names {shown} without a server, as for one server, and option servers names "
                f"{len(servers)} ({', '.join(map(str, servers))}): keep the one that it was written with, or begin "
                "with a new checkpoint and onNewCheckpoint=continue"
            )
        if len(servers) == 1 and all(_WITH_SERVER.fullmatch(key) for key in start):
            raise CursorError(
                f"the checkpoint names {shown} with their servers, as for several, and option servers names one "
                f"({servers[0]}): name all that it was written with, or begin with a new checkpoint and "
                "onNewCheckpoint=continue"
            )
        cursor = self._options.cursor
        self._lose(
            f"the checkpoint names {shown}, which cursor '{cursor}' has no position on",
            ": it is of another query or cursor; give that one's cursor, or a new checkpoint",
            "left out: it was deleted or released, or its server is named no longer",
            fatal=not any(key in known for key in start),
        )

    def _lose(self, text: str, fatal_rest: str, rest: str, fatal: bool = True) -> None:
        if fatal and self._options.fail_on_data_loss:
            raise CursorError(f"{text}{fatal_rest}")
        if text not in self._warned:
            if len(self._warned) >= WARNED_MAX:
                self._warned.clear()
            self._warned.add(text)
            LOG.warning("penstock: %s; %s", text, rest)


def _ended(answer: Mapping[str, Any], former: str) -> str:
    """Return why the cursor of a checkpoint is gone, as far as its broker knows."""
    ended = str(answer.get("ended") or "")
    return ended if ended.startswith(f"cursor '{former}' ") else _GONE
