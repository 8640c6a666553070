"""The scene of most tests here: a driver without connections."""

from tests.protocols.conftest import driver

__all__ = ["driver"]
