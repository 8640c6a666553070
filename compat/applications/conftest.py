"""The broker that the driver has started (compat/suites.py), and a way to lose it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from compat.applications.proxy import Proxy
from tests.support.brokers import some_name


@pytest.fixture(scope="session")
def url() -> str:
    """The URL of the broker, with the default user."""
    return os.environ["COMPAT_URL"]


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return some_name("app")


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    """The broker by way of a proxy, which can lose connections and be away for a while."""
    with Proxy(urlsplit(url).port or 0) as proxy:
        yield proxy
