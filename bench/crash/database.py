"""A broker that keeps what is durable in PostgreSQL: the broker is killed, and at times the server."""

from contextlib import ExitStack
from pathlib import Path

from bench.brokers import BrokerUnavailable, PenstockNode
from bench.crash.target import Target
from bench.postgres import NOT_INSTALLED, PROGRAMS, cluster

DATABASE = "postgres"


class PostgresTarget(Target):
    """A broker on a database of a server of its own."""

    store_is_mortal = True

    def __init__(self, name: str, scratch: Path) -> None:
        if PROGRAMS is None:
            raise BrokerUnavailable(f"{NOT_INSTALLED}.")
        with ExitStack() as stack:
            self.server = stack.enter_context(cluster())
            super().__init__(name, scratch)
            self._stack = stack.pop_all()

    def make_node(self, name: str) -> PenstockNode:
        return PenstockNode(name, self.scratch, self.server.url(DATABASE))

    def keep_data(self) -> None:
        """Nothing: the next broker comes at once, while the session of the dead one may still be at its commit."""

    def save_data(self, name: str) -> None:
        self.server.dump(DATABASE, self.scratch / f"{name}.dump")

    def kill_store(self) -> None:
        self.server.kill()
        self.store_kills += 1

    def start_store(self) -> None:
        if not self.server.is_running():
            self.server.start()

    def close(self) -> None:
        super().close()
        self._stack.close()
