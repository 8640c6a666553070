"""The HTTP back end in the settings file: `[auth-http]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.settings.file_tables import BackEndSettings, read_back_end

USER = {"user_path": "https://auth.example/user"}


def read(table: dict[str, Any], folder: Path = Path()) -> BackEndSettings:
    return read_back_end(table, folder, lambda at, text: ConfigError(f"{at[-1]}: {text}"))


def test_least_settings_are_the_url_of_users() -> None:
    found = read(USER)
    assert (found.user_path, found.vhost_path) == ("https://auth.example/user", "")
    assert (found.http_method, found.timeout_s, found.cache_s, found.threads, found.ca) == ("post", 5.0, 30.0, 4, "")
    assert found.permission.configure == ".*"


def test_settings_of_the_http_back_end_are_all_read(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    found = read(
        {
            "user_path": "http://auth.example:8000/user",
            "vhost_path": "http://[::1]:8000/vhost",
            "insecure": True,
            "http_method": "get",
            "timeout_s": 0.5,
            "cache_s": 0,
            "threads": 1,
            "ca": "ca.pem",
            "permissions": {"configure": "", "write": "^{username}", "read": ".*"},
        },
        tmp_path,
    )
    assert (found.http_method, found.timeout_s, found.cache_s, found.threads) == ("get", 0.5, 0.0, 1)
    assert (found.permission.write, found.ca) == ("^{username}", str(tmp_path / "ca.pem"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"user_path": ""}, r"user_path in \[auth-http\] must be a string that is not empty, not ''"),
        ({"user_path": 7}, "user_path in .* must be a string that is not empty, not a number"),
        (
            {"user_path": "https://auth.example/?a=b"},
            r"user_path in \[auth-http\] must be a URL of http",
        ),
        ({"vhost_path": "http://auth.example/vhost"}, r"in \[auth-http\] must be a URL of https, or of this machine$"),
        ({"insecure": 1}, "insecure in .* must be true or false"),
        ({"http_method": "put"}, "http_method in .* must be post or get, not 'put'"),
        ({"timeout_s": 0}, "timeout_s in .* must be seconds from 0.1 to 60 \\(such as 30s\\), not 0"),
        ({"timeout_s": float("nan")}, "timeout_s in .* must be seconds from 0.1 to 60 .*, not NaN"),
        ({"cache_s": True}, "cache_s in .* must be seconds from 0 to 3600 .*, not true"),
        ({"threads": 1.5}, "threads in .* must be a whole number from 1 to 64, not 1.5"),
        ({"ca": "none.pem"}, "names the file '.*none.pem', which is not there"),
        ({"permissions": {"read": ".*"}}, "must have the expressions configure, write, read"),
        ({"permissions": {"configure": "(", "write": "", "read": ""}}, "configure permission: RE2 refuses"),
        (
            {"resource_path": "https://auth.example/resource"},
            r"resource_path in \[auth-http\] is never asked, because the server is asked at the login only: "
            r"permissions in \[auth-http\] has the expressions for queues and exchanges; remove the line "
            r"\(docs/users.md, HTTP back end\)$",
        ),
        ({"resource-path": "x"}, "resource-path in .* is never asked"),
        ({"topic_path": "x"}, "topic_path in .* who may write to or read from a topic exchange may use all of its"),
        ({"topic-path": "x"}, "topic-path in .* is never asked"),
        ({"path": "x"}, r"\[auth-http\] has no setting 'path'; did you mean user_path"),
    ],
)
def test_wrong_settings_are_refused_with_the_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read({**USER, **change})
