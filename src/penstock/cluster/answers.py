"""Answers of a node: each operation is carried out by the process that has its subject.

| a row asks | who answers |
|---|---|
| VHOST | the shard of the virtual host, also one that starts |
| CATALOGUE | the office; the answer waits until shards and desk have the change |
| NODE | the office, about the node's own process |
| ALL | all shards at once, and their answers are joined; the office too, if it has objects of that kind |

A shard that is silent for `SILENCE_S`, or does not serve, delays nobody: it is left out and named. A request that
changes what all shards have is one record of the office's audit log.

Answers are held until they are joined, within the room of `NODE_ANSWERS`, of which each user has a share.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple, Protocol

from typing_extensions import override

from penstock.access.permission import MONITORING
from penstock.cluster.asking import Budget, Peer, TooLong, Unanswered
from penstock.cluster.shard_watch import SERVING, STARTING, STOPPED, ShardWatch, obstacle
from penstock.connections.control_request import IMPORT, ControlRequest
from penstock.describe.table import Row
from penstock.errors import AccessRefused, BrokerError, NotFound, ResourceError, ResourceLocked
from penstock.flow.pool import PoolHolder
from penstock.management.operation import (
    ALL,
    CATALOGUE,
    VHOST,
    Answer,
    Answered,
    Asked,
    Operation,
    Streamed,
    name_of,
    who_answers,
)
from penstock.operations import alarms, jobs, parameters
from penstock.operations.definitions_export import EXPORT
from penstock.operations.jobs import SHOW_JOB
from penstock.operations.vhosts import DECLARE_VHOST, DELETE_VHOST
from penstock.server.asker import Asker
from penstock.server.http.asks import Asks
from penstock.server.http.request import ApiRequest
from penstock.server.inside import MISSING, SILENCE_S, Ask
from penstock.server.shard import Shard
from penstock.settings.pools import NODE_ANSWERS

OF_OFFICE: Final = tuple(name_of(row) for noun in (jobs, alarms, parameters) for row in noun.OPERATIONS)
"""Operations of nouns that the office has objects of, beside those of the shards."""
GLOBAL: Final = "global_parameters"
"""Section of definitions that the office alone has."""
START_S: Final = 5.0
"""Seconds for which a request waits for a shard that starts."""
LOOK_S: Final = 0.5
"""Seconds between two looks at a job that goes on after its request was answered."""


class ShardDoor(Protocol):
    """State of a shard, as answers need it (parent.py)."""

    watch: ShardWatch | None
    version: int
    changed: asyncio.Event


class Versions(Protocol):
    """Versions of the catalogue."""

    def catalogue(self) -> int:
        """Return the version of the last commit."""

    def desk(self) -> int:
        """Return the version by which clients log in."""


class Missing(NamedTuple):
    """Shard that has not answered."""

    shard: str
    reason: str

    def row(self) -> Row:
        """Return the shard for an answer."""
        return {"shard": self.shard, "reason": self.reason}


class Joined(NamedTuple):
    """Answer of a node, and the shards that are missing in it."""

    answer: Answer
    missing: list[Missing]

    def whole(self) -> Answer:
        """Return the answer with the field `penstock.missing`, if it is an object and a shard is missing."""
        if self.missing and isinstance(self.answer, dict):
            return {**self.answer, MISSING: [each.row() for each in self.missing]}
        return self.answer


class _Room(Budget):
    """Room for the answers of one request."""

    def __init__(self, office: Shard, holder: PoolHolder) -> None:
        self._pool = office.driver.broker.pools.of(NODE_ANSWERS)
        self._holder = holder
        self._taken = 0

    @override
    def take(self, size: int) -> None:
        self._pool.require(self._holder, size)
        self._taken += size

    def release(self) -> None:
        """Give all room back."""
        self._pool.give(self._holder, self._taken)
        self._taken = 0


class NoAnswer(ResourceError):
    """Error for a request whose shard has not answered: nobody knows whether it has carried the request out."""

    finer_status = 503
    finer_word = "service_unavailable"


class NodeAnswers:
    """Answers of one node."""

    def __init__(
        self,
        office: Shard,
        doors: Mapping[str, ShardDoor],
        vhosts: Mapping[str, str],
        versions: Versions,
        peer: Callable[[str], Peer],
        silence_s: float = SILENCE_S,
    ) -> None:
        """`doors` are the shards in their order, `vhosts` has the shard of each virtual host.

        `peer` returns the client of a shard by its name, and that of the office for an empty name.
        """
        self._office = office
        self._doors = doors
        self._vhosts = vhosts
        self._versions = versions
        self._peer = peer
        self._silence_s = silence_s
        self._deleting: set[str] = set()
        """Virtual hosts that their shards delete."""
        self._background: set[asyncio.Task[None]] = set()
        self._met = asyncio.Event()

    def met(self) -> None:
        """Wake requests that wait for shards and desk to have a version of the catalogue."""
        self._met.set()
        self._met = asyncio.Event()

    async def stop(self) -> None:
        """End what goes on after its request was answered."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)

    async def answer(
        self, row: Operation, fields: Row, vhost: str, asker: Asker, tag: str | None = None, detached: bool = False
    ) -> Answer:
        """Return the answer; an object that lacks shards names them as `penstock.missing`. Raises BrokerError.

        `tag` is the tag that the user needs where the request came in, if it is not that of the row.
        """
        return (await self.joined(row, fields, vhost, asker, tag, detached)).whole()

    async def joined(
        self, row: Operation, fields: Row, vhost: str, asker: Asker, tag: str | None = None, detached: bool = False
    ) -> Joined:
        """Return the answer, and the shards that are missing in it. Raises BrokerError."""
        ask = Ask(name_of(row), fields, vhost, tag, True, detached)
        where = who_answers(row, fields)
        if row.name == DELETE_VHOST:
            return await self._delete_vhost(row, ask, asker)
        if row.name == DECLARE_VHOST and fields.get("name") in self._deleting:
            raise ResourceLocked(f"vhost '{fields.get('name')}' is being deleted")
        if where == ALL and row.name == EXPORT and fields.get("section") == GLOBAL:
            return await self._of_office(row, ask, asker, False)
        if where == ALL and row.name != IMPORT:
            return await self._of_all(row, ask, asker)
        if where == VHOST and row.name != IMPORT:
            return Joined(await self.of_shard(self.shard_of(vhost), ask, asker), [])
        return await self._of_office(row, ask, asker, where == CATALOGUE)

    # One process

    def shards(self) -> list[str]:
        """Return the names of all shards, in their order."""
        return [*self._doors]

    def shard_of(self, vhost: str) -> str:
        """Return the shard of a virtual host. Raises NotFound (404)."""
        shard = self._vhosts.get(vhost)
        if shard is None:
            raise NotFound(f"no vhost '{vhost}'")
        return shard

    async def serving(self, shard: str, patience_s: float = START_S) -> Peer:
        """Return the client of a shard once it serves. Raises ResourceError (506) with its state."""
        loop, door = asyncio.get_running_loop(), self._doors[shard]
        ends = loop.time() + patience_s if patience_s < inf else None
        while reason := self._absence(shard):
            if door.watch is not None and door.watch.state == STOPPED:
                break
            try:
                async with asyncio.timeout_at(ends):
                    await door.changed.wait()
            except TimeoutError:
                break
        else:
            return self._peer(shard)
        raise ResourceError(self._absence(shard) or reason)

    async def of_shard(self, shard: str, ask: Ask, asker: Asker, patience_s: float = START_S) -> Answer:
        """Return the answer of one shard, which may start for some seconds.

        Raises ResourceError (506) if it does not answer.
        """
        peer = await self.serving(shard, patience_s)
        room = self._room(asker)
        try:
            return await peer.ask(ask, asker, room)
        except Unanswered as error:
            raise NoAnswer(f"shard '{shard}' has not answered: {error}") from None
        finally:
            room.release()

    async def _of_office(self, row: Operation, ask: Ask, asker: Asker, settles: bool) -> Joined:
        """Return the answer of the office; with `settles` after shards and desk have what it has changed."""
        before = self._versions.catalogue()
        room = self._room(asker)
        try:
            answer = await self._peer("").ask(ask, asker, room)
        except Unanswered as error:
            raise ResourceError(f"the node has not answered: {error}") from None
        finally:
            room.release()
        missing: list[Missing] = []
        if settles and self._versions.catalogue() != before:
            missing = await self.settled()
        return Joined(answer, missing)

    async def settled(self) -> list[Missing]:
        """Wait until the desk and all shards that serve have the catalogue as it is now, for `SILENCE_S` at most.

        Return the shards that do not have it yet. One that does not serve gets it before it serves.
        """
        version = self._versions.catalogue()
        ends = asyncio.get_running_loop().time() + self._silence_s
        while late := self._late(version):
            try:
                async with asyncio.timeout_at(ends):
                    await self._met.wait()
            except TimeoutError:
                return [Missing(shard, "it does not have the change yet") for shard in late if shard]
        return []

    def _late(self, version: int) -> list[str]:
        """Return the shards that serve and lack a version of the catalogue; an empty name stands for the desk."""
        late = [
            name for name, door in self._doors.items()
            if door.watch is not None and door.watch.state == SERVING and door.version < version
        ]  # fmt: skip
        return late if self._versions.desk() >= version else [*late, ""]

    # All shards

    async def _of_all(self, row: Operation, ask: Ask, asker: Asker) -> Joined:
        assert row.join is not None, f"'{ask.operation}' asks all shards and has no join"
        names = [*([""] if ask.operation in OF_OFFICE else []), *self._doors]
        asked = Asked(ask.fields, len(names), self._office.driver.control.kinds)
        missing: list[Missing] = []
        room = self._room(asker)
        try:
            parts = zip(names, row.join.spread(asked), strict=True)
            answers = await asyncio.gather(
                *[self._part(name, fields, ask, asker, room, missing) for name, fields in parts]
            )
            too_long = next((each for each in answers if isinstance(each, TooLong)), None)
            if too_long is not None:
                raise too_long  # A join would pass over it, as over a shard that has no such object.
            if len(missing) == len(names):
                named = "; ".join(f"'{each.shard}': {each.reason}" for each in missing)
                raise NoAnswer(f"no shard has answered: {named}")
            found = row.join.join(asked, [*answers])
            if ask.operation == EXPORT and isinstance(found, dict) and GLOBAL in found:
                found = {**found, GLOBAL: await self._global_parameters(ask, asker, room)}
        except AccessRefused as error:
            self._office.driver.audit.refused(asker.actor(), ask.operation, str(error))
            raise
        finally:
            room.release()
        if row.audited:
            self._audit(ask, asker)
        return Joined(found, sorted(missing))

    async def _global_parameters(self, ask: Ask, asker: Asker, room: Budget) -> object:
        """Return the global parameters of an export of all definitions. Raises ResourceError (506)."""
        try:
            own = await self._peer("").ask(replace(ask, audited=False), asker, room)
        except Unanswered as error:
            raise NoAnswer(f"the node has not answered: {error}") from None
        assert isinstance(own, dict)
        return own[GLOBAL]

    async def _part(
        self, name: str, fields: Row | None, ask: Ask, asker: Asker, room: Budget, missing: list[Missing]
    ) -> Answered:
        """Return the answer of one shard, or of the office; None for one that is not asked, or is missing."""
        if fields is None:
            return None
        if name:
            await self._first_start(name)
        if name and (reason := self._absence(name)):
            missing.append(Missing(name, reason))
            return None
        part = Ask(ask.operation, fields, ask.vhost, ask.tag, False, ask.detached)
        try:
            return await self._peer(name).ask(part, asker, room)
        except Unanswered as error:
            missing.append(Missing(name, str(error)))
            return None
        except BrokerError as error:
            return error

    async def _first_start(self, shard: str) -> None:
        """Wait for a shard whose first process starts, for `SILENCE_S` at most: a node that starts lacks nothing."""
        door = self._doors[shard]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_S):
                while door.watch is None or (door.watch.state == STARTING and door.watch.starts <= 1):
                    await door.changed.wait()

    def _absence(self, shard: str) -> str:
        """Return why a shard is not asked; empty if it serves."""
        return obstacle(self._doors[shard].watch, shard, asyncio.get_running_loop().time())

    # Deletion of a virtual host

    async def _delete_vhost(self, row: Operation, ask: Ask, asker: Asker) -> Joined:
        """Have the shard of a virtual host delete it, as a job, and then take it out of the catalogue."""
        vhost = str(ask.fields.get("name"))
        shard = self._vhosts.get(vhost)
        if shard is None or vhost in self._deleting:
            if shard is not None:
                raise ResourceLocked(f"vhost '{vhost}' is being deleted")
            return await self._of_office(row, ask, asker, True)
        part = Ask(ask.operation, ask.fields, ask.vhost, ask.tag, False, ask.detached)
        self._deleting.add(vhost)
        try:
            answer = await self.of_shard(shard, part, asker)
        except NotFound:  # An earlier deletion was cut off between the two.
            answer = {}
        except BaseException:
            self._deleting.discard(vhost)
            raise
        if ask.detached:
            task = asyncio.ensure_future(self._await_deletion(row, ask, asker, shard, answer))
            self._background.add(task)
            task.add_done_callback(self._background.discard)
            return Joined(answer, [])
        try:
            return await self._of_office(row, ask, asker, True)
        finally:
            self._deleting.discard(vhost)

    async def _await_deletion(self, row: Operation, ask: Ask, asker: Asker, shard: str, job: Answer) -> None:
        """Wait for the end of a job of a shard, and take its virtual host out of the catalogue if it is done."""
        vhost = str(ask.fields.get("name"))
        try:
            assert isinstance(job, dict)
            look = Ask(SHOW_JOB, {"id": job["id"]}, ask.vhost)
            while True:
                await asyncio.sleep(LOOK_S)
                found = await self.of_shard(shard, look, asker)
                if isinstance(found, dict) and found.get("ended_at") is not None:
                    break
            if found["state"] == "done":
                whole = Ask(ask.operation, ask.fields, ask.vhost, ask.tag)
                await self._of_office(row, whole, asker, True)
        except BrokerError as error:
            self._office.driver.failures.report(f"deletion of vhost '{vhost}'", error)
        finally:
            self._deleting.discard(vhost)

    # Users

    def _room(self, asker: Asker) -> _Room:
        rules = asker.rules(self._office.driver.broker)
        return _Room(self._office, PoolHolder(asker.user, "", rules.has_tag(MONITORING)))

    def _audit(self, ask: Ask, asker: Asker) -> None:
        """Record a change that all shards have made."""
        office = self._office
        office.driver.begin(office.event_loop.loop.time())
        request = ControlRequest(None, None)
        request.fields = dict(ask.fields)
        office.driver.audit.change(asker.actor(), ask.operation, request.subject(), None, ask.fields)
        office.event_loop.schedule()


class NodeAsks(Asks):
    """Answers of the node to its shards."""

    def __init__(self, answers: NodeAnswers) -> None:
        self._answers = answers

    @override
    async def answer(self, request: ApiRequest, row: Operation, ask: Ask, asker: Asker) -> Answer | Streamed:
        return await self._answers.answer(row, ask.fields, ask.vhost, asker, ask.tag, ask.detached)
