"""The reference of the HTTP API: each path and method of the application, with its tag and purpose."""

from __future__ import annotations

import re

from penstock.server.http.app import TABLE
from tests.support.http_reference import IN_VHOST, STAND_INS, USUAL_TAG, sentence, tables

TAGS = ("administrator", "monitoring", "policymaker")
PLACE = re.compile(r"([A-Z ]+) `(/[^`]*)`")


def test_reference_has_every_method_of_every_path_with_its_tag() -> None:
    text = tables()["http paths"]
    rows = [
        (place, needs if needs in TAGS else USUAL_TAG)
        for place, needs in re.findall(r"^\| ([A-Z].*?) \| [^|]+ \| (\w*)", text, re.MULTILINE)
    ]
    rows += re.findall(r"^- ([A-Z].*?`) \((\w+)\)$", text, re.MULTILINE)
    found = [
        (path, method, tag) for row, tag in rows for methods, path in PLACE.findall(row) for method in methods.split()
    ]
    assert {(path, method): tag for path, method, tag in found} == {
        (path, method): place.need.tag for path, places in TABLE.items() for method, place in places.items()
    }
    assert len(found) == sum(map(len, TABLE.values())), "each is listed once"


def test_paths_that_name_a_virtual_host_need_a_permission_in_it_by_their_tag() -> None:
    places = [(path, place) for path, all_ in TABLE.items() for place in all_.values()]
    needed = {path for path, place in places if place.need.vhost == IN_VHOST}
    expected = {
        path
        for path, place in places
        if "{vhost}" in path and place.need.tag in ("management", "policymaker")
        if sentence(place.handler) not in STAND_INS and place.need.vhost in ("", IN_VHOST)
    }
    assert len(needed) > 30
    assert needed <= expected
    assert all(path.startswith(("/consumers/", "/health/")) for path in expected - needed)


def test_http_handlers_have_a_first_sentence() -> None:
    silent = [
        f"{method} {path}"
        for path, all_ in TABLE.items()
        for method, each in all_.items()
        if not sentence(each.handler)
    ]
    assert silent == []
