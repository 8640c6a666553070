"""A flow log of any size, made up: `python -m bench.flow_log DIR --records 1000000`, for measuring `penstock analyze`.

Queues fill and drain; their gates close and open, and block and release their producers. The same seed makes the same
log. It is written as a broker writes it: files of 16 MiB, one record a line.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

FILE_BYTES = 16 * 1024 * 1024
BEGIN = 1_790_000_000.0
UPTIME = 5_000.0
CAPACITY = 1_000
MESSAGE = 1_024


class Queue:
    """A queue with producers that its gate blocks."""

    def __init__(self, number: int, producers: int) -> None:
        self.name = f"queue-{number}"
        self.depth = 0
        self.open = True
        self.producers = [f"con:{number * 100 + each}(user{each % 3}@10.0.0.{each}:50{each:03}/)/ch:1"
                          for each in range(producers)]  # fmt: skip
        self.blocked: list[str] = []

    def records(self, mono: float, chance: random.Random) -> Iterator[dict[str, object]]:
        """Yield the records of one second."""
        begin = mono - 1.0
        closings = chance.randrange(3)
        came = chance.randrange(500, 2_000)
        for number in range(closings):
            at = round(begin + (number + chance.random() * 0.9) / closings, 6)
            if self.open:
                self.open, self.depth = False, chance.randrange(900, CAPACITY)
                yield self._gate("gate-closed", at, id="QUE-1003", messages=self.depth, bytes=self.depth * MESSAGE)
                for producer in self.producers[: chance.randrange(1, len(self.producers) + 1)]:
                    self.blocked.append(producer)
                    yield self._gate("blocked", at, id="CHN-1005", producer=producer)
            else:
                self.open, self.depth = True, chance.randrange(700)
                yield self._gate("gate-opened", at, id="QUE-1004", messages=self.depth, bytes=self.depth * MESSAGE)
                for producer in self.blocked:
                    later = round(min(at + chance.random() * 0.002, mono), 6)
                    yield self._gate("unblocked", later, id="CHN-1006", producer=producer)
                self.blocked = []
        before, self.depth = self.depth, chance.randrange(900, CAPACITY) if not self.open else chance.randrange(900)
        yield self._gate(
            "depth", mono, messages=self.depth, bytes=self.depth * MESSAGE, unacknowledged=min(self.depth, 50),
            open=self.open, blocked=len(self.blocked), waiting=0, consumers=2, seconds=1.0, in_messages=came,
            in_bytes=came * MESSAGE, out_messages=came, out_bytes=came * MESSAGE,
            settled_messages=max(came - self.depth + before, 0),
            settled_bytes=max(came - self.depth + before, 0) * MESSAGE, sizes=[0] * 11 + [came],
        )  # fmt: skip

    def traffic(self, mono: float) -> Iterator[dict[str, object]]:
        """Yield who published and consumed in ten seconds."""
        for producer in self.producers:
            yield self._gate("producer", mono, producer=producer, in_messages=10_000 // len(self.producers),
                             in_bytes=10_000 * MESSAGE, seconds=10.0)  # fmt: skip
        yield self._gate("consumer", mono, consumer=f"con:9{self.name[6:]}(reader@10.0.1.1:40000/)/ch:1",
                         out_messages=10_000, seconds=10.0, prefetch=100)  # fmt: skip

    def _gate(self, event: str, mono: float, **fields: object) -> dict[str, object]:
        return {"v": 1, "event": event, "wall": round(BEGIN + mono - UPTIME, 6), "mono": mono, "kind": "queue",
                "gate": self.name, "vhost": "/", "queue": self.name, **fields}  # fmt: skip


def records(count: int, queues: int, producers: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield so many records, each second's in the order of time."""
    chance = random.Random(seed)
    every = [Queue(number, producers) for number in range(queues)]
    yield {"v": 1, "event": "start", "wall": BEGIN, "mono": UPTIME, "version": "0.1.0"}
    made, mono = 1, UPTIME
    while made < count:
        mono += 1.0
        second = [record for queue in every for record in queue.records(mono, chance)]
        if mono % 10 == 0:
            second += [record for queue in every[:30] for record in queue.traffic(mono)]
        second.sort(key=lambda record: float(str(record["mono"])))
        yield from second[: count - made]
        made += len(second)


def write(folder: Path, lines: Iterator[dict[str, object]]) -> int:
    """Write records into files of a flow log; return the octets."""
    folder.mkdir(parents=True, exist_ok=True)
    total, number, size = 0, 1, 0
    output = (folder / f"flow-{number:08d}.jsonl").open("w")
    for record in lines:
        line = json.dumps(record, separators=(",", ":")) + "\n"
        if size + len(line) > FILE_BYTES:
            output.close()
            number, size = number + 1, 0
            output = (folder / f"flow-{number:08d}.jsonl").open("w")
        output.write(line)
        size += len(line)
        total += len(line)
    output.close()
    return total


def main() -> None:
    """Write the log that the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.flow_log", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=50)
    parser.add_argument("--producers", type=int, default=5, help="of each queue")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    octets = write(wanted.folder, records(wanted.records, wanted.queues, wanted.producers, wanted.seed))
    print(f"{wanted.records:,} records, {octets / 2**20:,.0f} MiB in {wanted.folder}")


if __name__ == "__main__":
    main()
