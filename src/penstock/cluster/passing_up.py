"""Requests of the control exchange that a shard passes up to its node, because the shard does not have the subject.

The connection that asks is not read until its answer has come, so each has one request up at a time. The loop of the
shard waits for nothing. A node that is silent for two seconds gives the client an error, and not a connection that
hangs.

Definitions on their way count as bodies of their users (`HTTP_BODIES`) until they are answered.
"""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import override

from penstock.cluster.asking import Peer, Unanswered
from penstock.connections.connection import Connection
from penstock.connections.control_request import IMPORT, ControlRequest
from penstock.errors import BrokerError, InternalError, ResourceError
from penstock.flow.wait import Wait, Waits
from penstock.management.elsewhere import Elsewhere
from penstock.management.operation import DETACH, VHOST, Answer, Operation, name_of, who_answers
from penstock.server.asker import Asker
from penstock.server.inside import Ask
from penstock.server.shard import Shard
from penstock.settings.pools import HTTP_BODIES

ENDING_S: Final = 0.5
"""Seconds for which a shard that stops waits for answers on their way, such as that to the request to restart it."""


class PassingUp(Elsewhere):
    """Requests of one shard."""

    def __init__(self, shard: Shard, name: str, node: Peer) -> None:
        self._shard = shard
        self._name = name
        self._node = node
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: set[Connection] = set()
        """Connections that wait for an answer."""

    @override
    def is_asking(self, connection: Connection) -> bool:
        return connection in self._asking

    @override
    def asks(self, row: Operation, request: ControlRequest) -> Waits[Answer] | None:
        if row.name != IMPORT and who_answers(row, request.fields) == VHOST:
            return None
        return self._steps(row, request)

    def _steps(self, row: Operation, request: ControlRequest) -> Waits[Answer]:
        connection = request.connection
        assert connection is not None, "a request of the control exchange has a connection"
        asker = Asker.of_connection(connection, self._name, request.reply_to or "")
        fields = dict(request.fields)
        detached = fields.pop(DETACH, None) is True
        ask = Ask(name_of(row), fields, request.vhost.name, detached=detached, body=request.unread)
        pool, size = self._shard.driver.broker.pools.of(HTTP_BODIES), len(request.unread)
        holder = request.access.holder()
        if size:
            pool.require(holder, size)
        asking = _Asking(self._shard)
        self._asking.add(connection)
        try:
            task = asyncio.get_running_loop().create_task(asking.run(self._node, ask, asker))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            yield asking.wait
        finally:
            self._asking.discard(connection)
            pool.give(holder, size)
        if asking.error is not None:
            raise asking.error
        return {} if asking.answer is None else asking.answer

    async def stop(self) -> None:
        """End all requests, after a moment for answers on their way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ENDING_S)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._node.close()


class _Asking:
    """One request on its way."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.wait = Wait()
        self.answer: Answer = None
        self.error: BrokerError | None = None

    async def run(self, node: Peer, ask: Ask, asker: Asker) -> None:
        """Ask, and end the wait in a turn of the broker."""
        try:
            self.answer = await node.ask(ask, asker)
        except BrokerError as error:
            self.error = error
        except Unanswered as error:
            self.error = ResourceError(f"the node has not answered: {error}")
        except Exception as unexpected:
            self.error = self._shard.driver.failures.report(f"operation '{ask.operation}'", unexpected)
        finally:
            event_loop = self._shard.event_loop
            if self.answer is None and self.error is None:
                self.error = InternalError("the shard stops")
            self._shard.driver.begin(event_loop.loop.time())
            self.wait.end()
            event_loop.schedule()
