"""The reference of the HTTP API: each path and method of the application, with its tag and purpose."""

from __future__ import annotations

import re

from penstock.server.http.app import TABLE
from tests.support.http_reference import sentence, tables


def test_reference_has_every_method_of_every_path_with_its_tag() -> None:
    found = re.findall(r"^\| ([A-Z ]+) \| `(/[^`]*)` \| [^|]+ \| (\w+) \|", tables()["http paths"], re.MULTILINE)
    listed = {(path, method): tag for methods, path, tag in found for method in methods.split()}
    assert listed == {
        (path, method): place.need.tag for path, places in TABLE.items() for method, place in places.items()
    }


def test_http_handlers_have_a_first_sentence() -> None:
    silent = [
        f"{method} {path}"
        for path, all_ in TABLE.items()
        for method, each in all_.items()
        if not sentence(each.handler)
    ]
    assert silent == []
