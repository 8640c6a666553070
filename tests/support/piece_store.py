"""A store of pieces in memory: what a broker's large bodies write, read and delete, step by step."""

from __future__ import annotations

from penstock.core.large_bodies import LargeBodies


class PieceStore:
    """Pieces by body and index."""

    def __init__(self, bodies: LargeBodies) -> None:
        self.pieces: dict[tuple[int, int], bytes] = {}
        self.fault = ""
        """The reason why nothing can be read; empty while it can."""
        self._bodies = bodies
        bodies.stores = True

    def write(self) -> int:
        """Write what waits, and delete what nothing refers to. Return the octets written."""
        writes, ledger = self._bodies.take_writes(), self._bodies.ledger
        for write in writes:
            self.pieces[int(write.number), int(write.index)] = write.octets
        octets = sum(len(write.octets) for write in writes)
        most, self._bodies.in_memory_max = self._bodies.in_memory_max, self._bodies.deferred
        self._bodies.written(writes)  # They leave the memory.
        self._bodies.in_memory_max = most
        del writes
        gone = set(self._bodies.take_unreferenced())
        for number in gone:
            del ledger.stored[number]
        self.pieces = {key: octets for key, octets in self.pieces.items() if key[0] not in gone}
        return octets

    def read(self) -> int:
        """Read what readers wait for. Return the number of pieces."""
        reads = self._bodies.take_reads()
        for read in reads:
            octets = self.pieces.get((int(read.number), int(read.index)))
            read.on_read(None if self.fault else octets, self.fault)
        return len(reads)
