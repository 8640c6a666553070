"""Rules for URLs in the settings."""

from __future__ import annotations

import pytest

from penstock.settings.web_url import url_fault


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:4318",
        "auth.example",
        "/keys",
        "ftp://auth.example/",
        "https:///keys",
        "https://auth.example:99999/",
        "https://auth.example:0/",
        "https://auth.example:port/",
        "https://[auth.example/",
        "https://x:secret@auth.example/",
        "https://@auth.example/",
        "https://auth.example/?key=secret",
        "https://auth.example/#secret",
        "https://auth.example/a b",
        "https://auth.example/a\nb",
        "https://auth.ex\u00e4mple/",
    ],
)
def test_refused_url_is_not_shown(url: str) -> None:
    assert url_fault(url) == "must be a URL of http or https without user, query and fragment"
    assert url_fault(url, insecure=True) == url_fault(url)


def test_query_of_a_url_is_permitted_only_if_stated() -> None:
    assert url_fault("https://id.example/keys?tenant=1", query=True) == ""
    assert (
        url_fault("https://id.example/keys#1", query=True) == "must be a URL of http or https without user and fragment"
    )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080"])
def test_url_of_this_machine_needs_no_tls(host: str) -> None:
    assert url_fault(f"http://{host}/keys") == ""


def test_url_of_another_machine_needs_tls_unless_it_is_insecure_by_will() -> None:
    assert url_fault("http://auth.example/user") == "must be a URL of https, or of this machine"
    assert url_fault("http://auth.example/user", insecure=True) == ""
    assert url_fault("HTTPS://auth.example/user") == ""
