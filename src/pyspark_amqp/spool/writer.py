"""Writer of a spool: gathers messages into frames and writes them, within the spool's bound."""

import time
from contextlib import suppress
from typing import Final

from penstock.client.engine.receiver import Delivery
from pyspark_amqp.spool.errors import DiskFull
from pyspark_amqp.spool.rows import Row, batch_of, spool_schema
from pyspark_amqp.spool.state import LOOK_SECONDS, SpoolState

FRAME_OCTETS: Final = 4 << 20
"""Bytes of messages after which a frame is written; one larger message is a frame of its own."""
FRAME_ROWS: Final = 5_000
"""Messages after which a frame is written."""
LINGER_SECONDS: Final = 0.02
"""Seconds after its first message at which a frame is written; a group of messages is one write to the disk."""
RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts to write to a full disk."""
_FRAME_OWN: Final = 8_192
"""Estimated bytes of a frame beside its messages."""


class Writer:
    """Messages of the next frame, and the spool's log; used by the consumer's thread alone."""

    def __init__(self, state: SpoolState) -> None:
        self._state, self._log = state, state.log
        self._schema = spool_schema()
        self._rows: list[Row] = []
        self._octets = 0
        self._first_at = 0.0
        self._failed_at: float | None = None

    @property
    def pending(self) -> int:
        """Number of messages that are not written yet."""
        return len(self._rows)

    @property
    def failing(self) -> bool:
        """True while the next frame could not be written."""
        return self._failed_at is not None

    def fits(self, octets: int) -> bool:
        """Return whether a message of an estimated size fits into the spool, beside the messages of the next frame."""
        return self._failed_at is None and self._octets + octets + 2 * _FRAME_OWN <= self._log.room()

    def add(self, queue: str, delivery: Delivery, digest: bytes, octets: int) -> int:
        """Add a message of an estimated size to the next frame; return its number."""
        if not self._rows:
            self._first_at = time.monotonic()
        number = self._log.tail + len(self._rows) + 1
        self._rows.append(Row(number, queue, time.time_ns() // 1_000, delivery, digest))
        self._octets += octets
        return number

    def drop(self) -> list[Row]:
        """Drop the messages of the next frame, and return them: their connection has ended."""
        rows, self._rows, self._octets = self._rows, [], 0
        self._failed_at = None
        return rows

    def due(self) -> float:
        """Return the seconds until the next frame must be written."""
        if not self._rows:
            return LOOK_SECONDS
        if self._failed_at is not None:
            return self._failed_at + RETRY_SECONDS - time.monotonic()
        return self._first_at + LINGER_SECONDS - time.monotonic()

    def write_due(self) -> bool:
        """Write the next frame if it is due; return whether a frame was written. Raises `DiskFull`; try again later."""
        full = self._octets >= FRAME_OCTETS or len(self._rows) >= FRAME_ROWS
        if not self._rows or (self.due() > 0 and (not full or self._failed_at is not None)):
            return False
        batch = batch_of(self._rows).serialize()
        try:
            if batch.size + _FRAME_OWN > self._log.room():
                raise DiskFull(f"the spool {self._log.path} is at its bound of {self._log.bound} bytes")
            frame = self._log.append(self._rows[0].number, len(self._rows), memoryview(batch), self._schema)
        except DiskFull:
            self._failed_at = time.monotonic()
            raise
        for row in self.drop():
            row.delivery.forget()
        self._state.appended(frame)
        return True

    def delete(self, settled: int) -> None:
        """Delete the segments that are settled as a whole."""
        with suppress(DiskFull):  # The last segment stays until there is room for its successor.
            self._log.renew(settled, self._schema)
        self._log.delete(self._state.take_segments(settled))

    def half_free(self, settled: int) -> bool:
        """Return whether half of the spool is free, or as much as possible; messages up to `settled` are deleted."""
        return self._failed_at is None and (self._log.octets <= self._log.bound // 2 or self.empty(settled))

    def empty(self, settled: int) -> bool:
        """Return whether the spool has only settled messages."""
        return not self._rows and self._log.tail <= settled
