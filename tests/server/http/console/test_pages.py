"""The files of the console as served: without a login, with a strict policy, and no other files."""

from __future__ import annotations

import re

import pytest

from penstock.server.http.console.pages import CONTENT_SECURITY, FILES, TYPES, routes
from tests.support.http_client import Web

OWN = [path for path in FILES.rglob("*.js") if path.parent.name != "vendor"]
"""Scripts of the console that are ours."""


def test_first_page_needs_no_login_and_runs_scripts_of_this_broker_only(web: Web) -> None:
    answer = web.fetch("/", login=False)
    assert answer.status == 200
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY
    assert "unsafe" not in CONTENT_SECURITY
    assert answer.headers["x-frame-options"] == "DENY"
    assert b"<script>" not in answer.body
    assert b"style=" not in answer.body


def test_file_named_by_a_console_file_is_served(web: Web) -> None:
    served = {route.path for route in routes()}
    for path in FILES.rglob("*.html"):
        named = re.findall(r'(?:src|href)="(/static/[^"]+)"', path.read_text())
        assert named
        assert set(named) <= served
    for path in OWN:
        folder = path.parent.relative_to(FILES)
        for name in re.findall(r'from "([^"]+)"', path.read_text()):
            assert (FILES / folder / name).resolve().is_file(), f"{path.name} imports {name}"
    assert [path.name for path in FILES.rglob("*") if path.is_file() and path.suffix not in TYPES] == []
    assert web.fetch("/static/app.js", login=False).status == 200


def test_known_file_is_not_sent_again(web: Web) -> None:
    tag = web.fetch("/static/app.js", login=False).headers["etag"]
    answer = web.fetch("/static/app.js", {"If-None-Match": tag}, login=False)
    assert (answer.status, answer.body) == (304, b"")


@pytest.mark.parametrize("path", ["/static/../pages.py", "/static/%2e%2e/pages.py", "/static/old.js"])
def test_other_path_below_static_is_absent_and_asks_for_no_login(web: Web, path: str) -> None:
    answer = web.fetch(path, login=False)
    assert (answer.status, "www-authenticate" in answer.headers) == (404, False)


@pytest.mark.parametrize("path", ["/index.html", "/x", "/static/"])
def test_other_path_needs_a_login(web: Web, path: str) -> None:
    assert web.fetch(path, login=False).status == 401


def test_console_scripts_make_no_markup_of_text() -> None:
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|new Function")
    for path in OWN:
        assert forbidden.findall(path.read_text()) == [], path.name
