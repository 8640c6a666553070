"""Imports of definitions by the shards of a node: each gets the whole file, and imports its part whole or not at all.

The office has imported users and virtual hosts by then. The shards begin once these are on the disk and they have them.
All work at the same time, each with a job of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from math import inf
from typing import Final

from typing_extensions import override

from penstock.access.rules import ConnectionAccess
from penstock.cluster.answers import START_S, NoAnswer, NodeAnswers
from penstock.connections.control_request import IMPORT
from penstock.describe.table import Row
from penstock.errors import BrokerError, InternalError, NotOnDisk, ResourceError
from penstock.management.elsewhere import ImportParts, PartAnswer, PartsWork
from penstock.management.operation import Answered
from penstock.operations.definitions_import import NEW_VHOSTS
from penstock.server.asker import Asker
from penstock.server.inside import Ask
from penstock.server.shard import Shard

START: Final = Asker(user="", scopes=("tag:administrator",), address="file", protocol="start", label="the start")
"""User of the files of the start."""


AT_ONCE: Final = 8
"""Shards that get the file at the same time: each has a copy of up to 8 MiB on its way."""


class ShardImports(ImportParts):
    """Imports of the shards of one node."""

    def __init__(self, office: Shard, answers: NodeAnswers) -> None:
        self._office = office
        self._answers = answers
        self._tasks: set[asyncio.Task[None]] = set()

    @override
    def begin(
        self,
        fields: Row,
        vhost: str,
        new_vhosts: list[str],
        access: ConnectionAccess | None,
        peer: str,
        asker: str,
        on_end: Callable[[], None],
    ) -> PartsWork:
        user = START
        if access is not None:
            user = Asker.with_rules(access.rules, inf, user=access.user, address=peer, label=asker)
        work = PartsWork()
        data = fields["definitions"]
        given = {**fields, "definitions": data.decode(errors="replace") if isinstance(data, bytes) else data}
        before = int(self._office.driver.broker.durable_changes.durable_declarations)
        task = asyncio.get_running_loop().create_task(self._run(work, given, vhost, new_vhosts, user, before, on_end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return work

    async def stop(self) -> None:
        """End all imports: their shards complete what they have begun."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(
        self,
        work: PartsWork,
        fields: Row,
        vhost: str,
        new_vhosts: list[str],
        asker: Asker,
        before: int,
        on_end: Callable[[], None],
    ) -> None:
        shards = self._answers.shards()
        patience_s = inf if asker is START else START_S
        answers: list[Answered] = [InternalError("the node stops")] * len(shards)
        try:
            await self._office.event_loop.on_disk(before)
            late = {each.shard: each.reason for each in await self._answers.settled()}
            body = json.dumps(fields).encode()
            bodies = [body] * len(shards)
            if new_vhosts:
                bodies[0] = json.dumps({**fields, NEW_VHOSTS: new_vhosts}).encode()
            places = asyncio.Semaphore(AT_ONCE)
            answers = await asyncio.gather(*[
                self._part(places, shard, Ask(IMPORT, {}, vhost, None, False, body=part), asker, patience_s)
                if shard not in late
                else _refusal(f"shard '{shard}' imports nothing: {late[shard]}")
                for shard, part in zip(shards, bodies, strict=True)
            ])  # fmt: skip
        except TimeoutError:
            error = NotOnDisk("users and virtual hosts of the file are not durable yet: the disk has not answered")
            answers = [error] * len(shards)
        finally:
            pairs = zip(shards, answers, strict=True)
            work.answers = [PartAnswer(*each, not isinstance(each[1], NoAnswer)) for each in pairs]
            work.is_over = True
            event_loop = self._office.event_loop
            self._office.driver.begin(event_loop.loop.time())
            on_end()
            event_loop.schedule()

    async def _part(self, places: asyncio.Semaphore, shard: str, ask: Ask, asker: Asker, patience_s: float) -> Answered:
        """Return the answer of one shard."""
        async with places:
            try:
                return await self._answers.of_shard(shard, ask, asker, patience_s)
            except BrokerError as error:
                return error


async def _refusal(text: str) -> Answered:
    return ResourceError(text)
