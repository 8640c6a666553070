"""Digests of acknowledged messages with an id, in a file, so that they outlive the spool's process.

An acknowledgement may be lost when the broker dies soon after it was sent. If the process dies as well, only this file
shows that the message was read. The file is written before the acknowledgement is sent, and is not synchronised: it
survives a killed process, but a power failure may cut off its end. Without room on the disk nothing is added.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark_amqp.spool.folder import replace_file
from pyspark_amqp.spool.rows import DIGEST_OCTETS, NO_DIGEST

NAME: Final = "acknowledged.digests"
"""Name of the file in the folder of the spool."""


class AcknowledgedFile:
    """File with the last digests, one after the other: `most`, or up to twice as many until the file is cut."""

    def __init__(self, folder: Path, most: int) -> None:
        self._path, self._most = folder / NAME, most
        self._count = 0
        """Digests in the file."""

    def recall(self) -> list[bytes]:
        """Return the last digests, the oldest first; an incomplete digest at the end is ignored."""
        data = b""
        with suppress(OSError):
            data = self._path.read_bytes()
        self._count = len(data) // DIGEST_OCTETS
        first = max(0, self._count - self._most)
        found = (data[at * DIGEST_OCTETS : (at + 1) * DIGEST_OCTETS] for at in range(first, self._count))
        return [digest for digest in found if digest != NO_DIGEST]

    def append(self, digests: list[bytes]) -> None:
        """Add digests, after `recall`."""
        with suppress(OSError):
            if self._count + len(digests) > 2 * self._most:
                kept = self.recall()
                replace_file(self._path, b"".join(kept))
                self._count = len(kept)
            data = b"".join(digests)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.pwrite(descriptor, data, self._count * DIGEST_OCTETS) == len(data):
                    self._count += len(digests)
            finally:
                os.close(descriptor)
