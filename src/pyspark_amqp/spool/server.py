"""Process of a spool: reads the requests of its reader, one JSON object a line, and answers each in the same form.

The first request is ``open``, with the settings. The process ends when its input ends: then its reader is gone.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

from pyspark_amqp.spool.acknowledged import AcknowledgedFile
from pyspark_amqp.spool.consumer import Consumer
from pyspark_amqp.spool.duplicates import ACKNOWLEDGED_MAX, Duplicates
from pyspark_amqp.spool.errors import DiskFull, SpoolError
from pyspark_amqp.spool.folder import SpoolFolder
from pyspark_amqp.spool.log import SpoolLog, read_batch, read_file, read_segment_head, segment_name
from pyspark_amqp.spool.rows import DIGEST, spool_schema
from pyspark_amqp.spool.settings import MESSAGE_ID, NONE, SETTLED, Settings
from pyspark_amqp.spool.state import SpoolState

logger = logging.getLogger(__name__)

END_SECONDS: Final = 10.0
"""Seconds that the consumer may take to close its connection."""

Answer = dict[str, Any]


class SpoolServer:
    """Spool of one reader, from ``open`` to `close`."""

    def __init__(self) -> None:
        self._folder: SpoolFolder | None = None
        self._state: SpoolState | None = None
        self._consumer: Consumer | None = None

    def answer(self, request: dict[str, Any]) -> Answer:
        """Return the answer to a request; an error is ``{"error": sentence, "kind": name}``."""
        operations: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "open": self._open,
            "plan": self._plan,
            "settle": self._settle,
            "places": self._places,
        }
        try:
            return operations[request["op"]](request)
        except SpoolError as error:
            return {"error": error.text, "kind": error.kind}
        except DiskFull as error:
            return {"error": str(error), "kind": "full"}

    def _open(self, request: dict[str, Any]) -> Answer:
        settings = Settings.from_json(request["settings"])
        settings.tls_context()  # A missing file is reported now.
        path = Path(settings.spool)
        self._folder = folder = SpoolFolder(path)
        folder.lock(float(request["lock_seconds"]))
        folder.open(settings.owner())
        log = SpoolLog(path, folder.id, settings.spool_octets)
        log.recover(spool_schema())
        if log.cut:
            logger.warning("the spool %s ended in a torn write: %d bytes are cut off", path, log.cut)
        # An earlier run that acknowledged at once has no number beyond this one.
        folder.acknowledged = min(folder.acknowledged, log.tail)
        duplicates = Duplicates(settings.duplicates != NONE, settings.duplicates == MESSAGE_ID)
        if settings.duplicates != NONE:
            duplicates.keep(AcknowledgedFile(path, ACKNOWLEDGED_MAX))
        _remember(duplicates, log, folder)
        brake = settings.prefetch if settings.acknowledge == SETTLED else None
        self._state = SpoolState(log, folder.settled, settings.retries, brake)
        self._state.drains = bool(request["drains"])
        self._consumer = Consumer(settings, folder, self._state, duplicates)
        self._consumer.start()
        return {"id": folder.id, "first": self._state.first(), "settled": folder.settled, "tail": log.tail}

    def _plan(self, request: dict[str, Any]) -> Answer:
        state = self._opened()
        state.settle(request["start"])
        wait = request["wait_ms"] / 1000
        planned = state.plan(request["start"], request["rows"], request["octets"], wait, request["least"])
        return {"end": planned.end, "tail": state.log.tail}

    def _settle(self, request: dict[str, Any]) -> Answer:
        self._opened().settle(request["end"])
        return {}

    def _places(self, request: dict[str, Any]) -> Answer:
        return {"places": self._opened().places(request["numbers"])}

    def _opened(self) -> SpoolState:
        if self._state is None:
            raise SpoolError("order", "the first request must be open")
        return self._state

    def close(self) -> None:
        """End the consumer, and release the spool."""
        if self._state is not None and self._consumer is not None:
            self._state.stop()
            self._consumer.join(END_SECONDS)
            self._state.log.close()
        if self._folder is not None:
            self._folder.close()


def _remember(duplicates: Duplicates, log: SpoolLog, folder: SpoolFolder) -> None:
    """Record the messages that the broker may deliver again, and the ids."""
    for frame in log.frames:
        name = segment_name(frame.segment)
        data = read_file(log.path / name)
        batch = read_batch(data, frame, read_segment_head(data, name)[1])
        columns = (batch.column("sequence"), batch.column(DIGEST), batch.column("message_id"))
        for number, digest, message_id in zip(*(column.to_pylist() for column in columns), strict=True):
            duplicates.add(number, digest, message_id)
            if number <= folder.acknowledged:
                duplicates.acknowledged((number,))


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer requests until they end."""
    server = SpoolServer()
    try:
        for line in requests:
            answers.write(json.dumps(server.answer(json.loads(line))) + "\n")
            answers.flush()
    except BrokenPipeError:
        pass  # The reader is gone.
    finally:
        server.close()


def main() -> None:
    """Serve on the standard streams; log lines go to the standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The reader decides when this process ends.
    logging.basicConfig(level=logging.WARNING, format="penstock: %(message)s", stream=sys.stderr)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)
    sys.stderr.flush()
    os._exit(0)  # A thread that waits for a stuck disk must not keep the process.
