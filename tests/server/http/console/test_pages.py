"""The files of the console as they are served: to anybody, with a strict policy, and nothing besides."""

from __future__ import annotations

import http.client
import re

import pytest

from penstock.server.http.console.pages import CONTENT_SECURITY, FILES, TYPES, routes
from tests.support.http_client import Web


def fetch(web: Web, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(web.address)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_first_page_needs_no_login_and_runs_scripts_of_this_broker_only(web: Web) -> None:
    status, headers, body = fetch(web, "/")
    assert status == 200
    assert headers["content-security-policy"] == CONTENT_SECURITY
    assert "unsafe" not in CONTENT_SECURITY
    assert headers["x-frame-options"] == "DENY"
    assert b"<script>" not in body
    assert b"style=" not in body


def test_every_file_that_a_file_names_is_served(web: Web) -> None:
    served = {route.path for route in routes()}
    for path in FILES.rglob("*.html"):
        named = re.findall(r'(?:src|href)="(/static/[^"]+)"', path.read_text())
        assert named
        assert set(named) <= served
    for path in [*FILES.glob("*.js"), *FILES.glob("pages/*.js")]:
        folder = path.parent.relative_to(FILES)
        for name in re.findall(r'from "([^"]+)"', path.read_text()):
            assert (FILES / folder / name).resolve().is_file(), f"{path.name} imports {name}"
    assert [path.name for path in FILES.rglob("*") if path.is_file() and path.suffix not in TYPES] == []
    assert fetch(web, "/static/app.js")[0] == 200


def test_known_file_is_not_sent_again(web: Web) -> None:
    tag = fetch(web, "/static/app.js")[1]["etag"]
    status, _, body = fetch(web, "/static/app.js", **{"If-None-Match": tag})
    assert (status, body) == (304, b"")


@pytest.mark.parametrize("path", ["/static/../pages.py", "/static/%2e%2e/pages.py", "/static/", "/index.html", "/x"])
def test_no_other_path_is_a_file(web: Web, path: str) -> None:
    assert fetch(web, path)[0] == 401


def test_no_page_makes_markup_of_a_text() -> None:
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|new Function")
    for path in [*FILES.glob("*.js"), *FILES.glob("pages/*.js")]:
        assert forbidden.findall(path.read_text()) == [], path.name
