"""Brokers for the commands: those of tests/server."""

from tests.server.conftest import broker, data, name, own_broker

__all__ = ["broker", "data", "name", "own_broker"]
