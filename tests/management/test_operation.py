"""Needs of operations at paths of HTTP."""

from __future__ import annotations

import pytest

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT
from penstock.management.operation import ANYWHERE, ENTERED, SEEN, Route, need_at


@pytest.mark.parametrize(
    ("path", "tag", "vhost", "needed"),
    [
        ("/queues", MANAGEMENT, None, ANYWHERE),
        ("/queues/{vhost}", MANAGEMENT, None, ENTERED),
        ("/users/{user}", ADMINISTRATOR, None, ANYWHERE),
        ("/vhosts/{vhost}", ADMINISTRATOR, None, ANYWHERE),
        ("/vhost-limits", MANAGEMENT, SEEN, ANYWHERE),
        ("/vhost-limits/{vhost}", MANAGEMENT, SEEN, SEEN),
    ],
)
def test_path_in_a_virtual_host_needs_access_or_the_tag_administrator(
    path: str, tag: str, vhost: str | None, needed: str
) -> None:
    assert need_at(path, tag, (), vhost).vhost == needed


def test_route_reads_bodies_of_put_and_post_and_of_others_where_it_says_so() -> None:
    found = [Route(f"{method} /x", "").reads_body for method in ("GET", "PUT", "POST", "DELETE")]
    assert found == [False, True, True, False]
    assert Route("DELETE /x", "", body=True).reads_body
