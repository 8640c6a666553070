"""Brokers for the commands: those of tests/server."""

from tests.server.conftest import broker, name, own_broker, server, store

__all__ = ["broker", "name", "own_broker", "server", "store"]
