"""Redaction of a report: passwords, keys and tokens are replaced before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, unquote

HIDDEN: Final = "***"
"""Text in place of a secret."""
SHORTEST: Final = 4
"""Shortest known secret that is searched for in texts: a shorter one would hide half of the report."""

_SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase|code)?$|secret|token|credential|private|api[-_]?key|_hash$|-hash$|^hash|salt|cookie|authorization",
    re.IGNORECASE,
)
_NO_SECRET: Final = re.compile(r"^(has|is|no)[-_]|file$|count$|tokens?-(url|audience|issuer|leeway)", re.IGNORECASE)
"""Names that look like those of secrets and are none."""
_USER_INFO: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@'\"]*):[^\s'\"]*@")
_URL_PASSWORD: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/:@]*:(.*)@", re.DOTALL)
"""Password of a text that is a URL as a whole: it may have spaces and quotes, at which one inside a text would end."""
_ASSIGNED: Final = re.compile(
    r"(?i)([\w-]*(?:password|passwd|secret|token|api[-_]?key|credential)[\w-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&}\])]+)"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}")
_JWT: Final = re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*(?:KEY|CERTIFICATE)-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL)


class Redactor:
    """Replacement of secrets in plain data and in texts."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        found = {form for secret in known for form in (secret, unquote(secret), quote(secret, safe=""))}
        self._known = sorted((each for each in found if len(each) >= SHORTEST), key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return a text without the known secrets and what looks like one."""
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        text = _PEM.sub(HIDDEN, text)
        text = _USER_INFO.sub(rf"\1:{HIDDEN}@", text)
        text = _BEARER.sub(rf"\1 {HIDDEN}", text)
        text = _JWT.sub(HIDDEN, text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)

    def data(self, value: object) -> object:
        """Return plain data in which values of secret names, and secrets in texts, are replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(str(name)): HIDDEN if _is_secret(str(name)) and item not in (None, "", False, True)
                else self.data(item)
                for name, item in value.items()
            }  # fmt: skip
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value


def secrets_of(value: object) -> Iterator[str]:
    """Return the texts of secret names in plain data, and the passwords of its URLs."""
    if isinstance(value, str):
        url = _URL_PASSWORD.match(value)
        if url is not None:
            yield url[1]
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str) and _is_secret(str(name)):
                yield item
            else:
                yield from secrets_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_of(item)


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and _NO_SECRET.search(name) is None
