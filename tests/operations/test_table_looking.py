"""Operations that explain blocks."""

from __future__ import annotations

import pytest

from penstock.errors import AccessRefused
from tests.support.access_of import access_of
from tests.support.driven_connection import make_driver
from tests.support.operation_calls import ask


def test_overview_of_all_that_is_blocked_needs_the_tag_monitoring() -> None:
    driver = make_driver()
    driver.broker.access.put_user("looker", None, ["management"])
    assert "sentences" in ask(driver, "why", {}, access=access_of(driver.broker))
    with pytest.raises(AccessRefused, match="an overview of all that is blocked needs the tag monitoring"):
        ask(driver, "why", {}, access=access_of(driver.broker, "looker"))
