"""Rounds over the shards of a node: each shard is killed under load, or the parent with all of them.

Each shard has a virtual host with the clients, the account and the judge of a broker alone. In a round of shards they
are killed one after another, at moments of their own, while the node starts each again: the clients of the others must
not notice. In a round of the parent it is killed alone, and all its processes must be gone with it. In a round of
restarts, `penstock cluster restart` stops shard after shard in order.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from typing_extensions import override

from bench import processes
from bench.brokers import PenstockNode
from bench.crash.history import Violation
from bench.crash.parties import Party
from bench.crash.rounds import LONGEST_LOAD_S, LONGEST_WAIT_S, Plan, Rounds, plan_of
from bench.crash.target import Target
from penstock.cluster.adoption import FOLDER
from penstock.cluster.catalogue import CatalogueReader
from penstock.store.node_folder import folder_of

GONE_S = 5.0
"""Seconds in which all processes of a killed parent must be gone."""
LINGER_S = 1.0
"""Seconds after which a client that lives on is one that has reached the next process of its shard."""
APART_S = 0.4
"""Longest time between the deaths of two shards."""
PARENT, SHARDS, RESTARTS = "rounds of the parent", "rounds of shards", "rounds of restarts"
KINDS = (PARENT, PARENT, SHARDS, SHARDS, SHARDS, RESTARTS)
SEEDS_APART = 1_000_003
"""Between the seeds of two virtual hosts, so that their rounds differ."""


class NodeTarget(Target):
    """A node with shards, and a virtual host in each."""

    def __init__(self, name: str, scratch: Path, shards: int) -> None:
        self.shards = shards
        self.vhosts = ["/", *(f"crash.{number}" for number in range(1, shards))]
        self.outlived: list[int] = []
        """Processes that were there long after their parent."""
        super().__init__(name, scratch)
        self.deaths: Counter[str] = Counter()
        """Deaths of each shard since the start of the parent."""
        self.place: dict[str, str] = {}
        """Shard of each virtual host."""

    @override
    def make_node(self, name: str) -> PenstockNode:
        names = ", ".join(f'"{vhost}"' for vhost in self.vhosts)
        config = self.scratch / "node.toml"
        config.write_text(f"[broker]\nvhosts = [{names}]\n")
        return PenstockNode(name, self.scratch, config=config, options=("--shards", str(self.shards)))

    @override
    def start(self) -> int:
        port = super().start()
        self.deaths.clear()
        reader = CatalogueReader(self.node.data / FOLDER)
        self.place = reader.vhosts()
        reader.close()
        return port

    @override
    def kill(self) -> None:
        """Kill the parent alone: the others must follow."""
        process = self._process
        if process is None:
            return
        children = self.children()
        self._process = None
        self.kills += process.poll() in (None, -signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + GONE_S
        while (alive := [pid for pid in children if processes.is_alive(pid)]) and time.monotonic() < deadline:
            time.sleep(0.002)
        self.outlived += alive
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def children(self) -> list[int]:
        """Return all processes of the node but its parent."""
        return [] if self._process is None else processes.tree(self._process.pid)[1:]

    def pid_of(self, shard: str) -> int:
        """Return the process that has the store of a shard open; 0 while there is none."""
        store = folder_of(self.node.data, shard) / "messages.sqlite"
        for pid in self.children():
            with contextlib.suppress(OSError):
                files = [os.readlink(each) for each in (processes.PROC / str(pid) / "fd").iterdir()]
                if str(store) in files:
                    return pid
        return 0

    def kill_shard(self, shard: str) -> None:
        """Kill the process of a shard; its node starts another one."""
        deadline = time.monotonic() + GONE_S
        while not (pid := self.pid_of(shard)) and time.monotonic() < deadline:
            time.sleep(0.01)  # It has died before, and its node starts it.
        self.strike_at(pid)
        self.kills += pid > 0
        self.deaths[shard] += 1

    @staticmethod
    def strike_at(pid: int) -> None:
        """Send the signal that kills a process, from any thread."""
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class NodeRounds:
    """The rounds of a run over the shards of a node."""

    def __init__(self, target: NodeTarget, seed: int, amqp10: float = 0.0) -> None:
        self.target = target
        self.seed = seed
        self.of_vhosts = [
            Rounds(target, seed + number * SEEDS_APART, amqp10, vhost) for number, vhost in enumerate(target.vhosts)
        ]
        self._own: Counter[str] = Counter()
        self._port = 0

    @property
    def counts(self) -> Counter[str]:
        """The counts of all virtual hosts."""
        found: Counter[str] = Counter(self._own)
        for rounds in self.of_vhosts:
            found.update({name: count for name, count in rounds.counts.items() if name != "rounds"})
        return found

    def run(self, number: int) -> list[Violation]:
        """Run a round; return the promises that were broken."""
        chance = random.Random(f"{self.seed}/{number}/node")
        if not self._port:
            self._port = self.target.start()
            for rounds in self.of_vhosts:
                rounds.begin(self._port)
        plans = [plan_of(rounds.seed, number) for rounds in self.of_vhosts]
        kind = chance.choice(KINDS)
        if kind == SHARDS and self.target.deaths:  # A second death within a minute is followed by a pause.
            kind = PARENT
        for rounds in self.of_vhosts:
            rounds.history.promises = self.target.promises
        clients = [rounds.begin_load(plan.name, its) for rounds, (plan, its) in zip(self.of_vhosts, plans, strict=True)]
        broken: list[Violation] = []
        if kind == SHARDS:
            self._kill_shards([plan for plan, _ in plans], clients, chance)
        elif kind == PARENT:
            self._kill_parent(clients, chance)
        else:
            broken += self._restart_shards(clients, chance)
        self._own["rounds"] += 1
        self._own[kind] += 1
        for rounds, (plan, its) in zip(self.of_vhosts, plans, strict=True):
            broken += rounds.verify(self._port, plan, its)
        broken += [Violation("outlived", f"process {pid} was there {GONE_S:g} s after its parent")
                   for pid in self.target.outlived]  # fmt: skip
        self.target.outlived.clear()
        return broken

    def _kill_parent(self, clients: list[list[Party]], chance: random.Random) -> None:
        """Kill the parent under load; in half of the rounds a shard before."""
        time.sleep(chance.uniform(0.0, LONGEST_LOAD_S))
        if chance.random() < 0.5:
            early = chance.randrange(len(clients))
            self.of_vhosts[early].history.over = True
            self.target.kill_shard(self._shard_of(early))
            time.sleep(chance.uniform(0.0, APART_S))
            self._check_others(clients, {early})
        for rounds in self.of_vhosts:
            rounds.history.over = True
        self.target.kill()
        for rounds, its in zip(self.of_vhosts, clients, strict=True):
            rounds.end_load(its)
        self.target.keep_data()
        self._port = self.target.start()

    def _kill_shards(self, plans: list[Plan], clients: list[list[Party]], chance: random.Random) -> None:
        """Kill all shards under load, each at a moment of its own, while the parent starts them again."""
        order = list(range(len(clients)))
        chance.shuffle(order)
        dead: set[int] = set()
        time.sleep(chance.uniform(0.0, LONGEST_LOAD_S))
        for each in order:
            time.sleep(chance.uniform(0.0, APART_S))
            self._check_others(clients, dead)
            rounds, shard = self.of_vhosts[each], self._shard_of(each)
            rounds.history.over = True
            dead.add(each)
            if plans[each].strikes_on:
                pid = self.target.pid_of(shard)
                rounds.history.waiting = plans[each].strikes_on, lambda pid=pid: self.target.strike_at(pid)
                deadline = time.monotonic() + LONGEST_WAIT_S
                while processes.is_alive(pid) and time.monotonic() < deadline:
                    time.sleep(0.002)
                rounds.history.waiting = None
                if not processes.is_alive(pid):
                    self.target.kills += 1
                    self.target.deaths[shard] += 1
                    continue
            self.target.kill_shard(shard)
        for each in order:
            self._end_load(each, clients[each])

    def _restart_shards(self, clients: list[list[Party]], chance: random.Random) -> list[Violation]:
        """Restart all shards in order under load; return what is wrong with that."""
        before = {shard: self.target.pid_of(shard) for shard in self.target.place.values()}
        time.sleep(chance.uniform(0.0, LONGEST_LOAD_S))
        self._check_others(clients, set())
        for rounds in self.of_vhosts:
            rounds.history.over = True
        node = self.target.node
        assert isinstance(node, PenstockNode)
        done = node.command("cluster", "restart", "--url", f"amqp://guest:guest@127.0.0.1:{self._port}/")
        broken = []
        if done.returncode:
            broken.append(Violation("restart", f"`penstock cluster restart` failed: {done.stderr.strip()}"))
        for shard, pid in before.items():
            if processes.is_alive(pid):
                broken.append(Violation("restart", f"shard {shard} has the process that it had before its restart"))
        for number, its in enumerate(clients):
            self._end_load(number, its)
        return broken

    def _end_load(self, number: int, clients: list[Party]) -> None:
        """Wait for the clients of a shard that has ended; kill it if some of them are with its next process."""
        deadline = time.monotonic() + LINGER_S
        for client in clients:
            client.join(max(0.0, deadline - time.monotonic()))
        if any(client.is_alive() for client in clients):
            self.target.kill_shard(self._shard_of(number))
            self._own["clients of the next process"] += sum(client.is_alive() for client in clients)
        self.of_vhosts[number].end_load(clients)

    def _check_others(self, clients: list[list[Party]], dead: set[int]) -> None:
        """Blame clients of living shards that have ended."""
        for number, its in enumerate(clients):
            ended = [client.name for client in its if not client.is_alive()]
            if number not in dead and ended:
                vhost = self.of_vhosts[number].vhost
                text = f"clients of vhost {vhost} have ended, and its shard was not killed: {', '.join(ended)}"
                self.of_vhosts[number].history.blame("neighbour", text)

    def _shard_of(self, number: int) -> str:
        return self.target.place[self.of_vhosts[number].vhost]
