"""The version of the package."""

from __future__ import annotations

import re

from penstock.version import VERSION


def test_version_is_a_release_or_one_that_is_made() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+|\.dev\d+)?", VERSION)
