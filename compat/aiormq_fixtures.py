"""A plugin of pytest for aiormq's tests: the broker that they would start in a container."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from yarl import URL


@pytest.fixture
def amqp_direct_url() -> URL:
    """The URL of the broker."""
    return URL(os.environ["COMPAT_URL"])


@pytest.fixture
def rabbitmq_container() -> SimpleNamespace:
    """The ports of the container: the one with TLS is of no test that runs here."""
    return SimpleNamespace(ports={"5671/tcp": 0}, host="127.0.0.1")
