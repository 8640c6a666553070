"""A broker for the benches."""

from tests.server.conftest import broker

__all__ = ["broker"]
