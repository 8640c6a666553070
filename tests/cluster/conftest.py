"""Fixtures of tests of a node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.web_node import WebNode, web_node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebNode]:
    """Run a node with HTTP for the tests of a file, which leave its shards as they are."""
    with web_node(tmp_path_factory.mktemp("node")) as process:
        yield process
