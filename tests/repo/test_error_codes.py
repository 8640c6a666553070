"""Every error that a client is told has its codes in each protocol, which docs/logs.md lists."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import CODES, BrokerError, PenstockError, StoreError
from penstock.protocols.amqp091.methods import Malformed
from penstock.server.http.app import STATUS_WORDS, refused
from penstock.wire.amqp091.fields import CodecError
from penstock.wire.amqp091.spec import ReplyCode
from penstock.wire.amqp10.values import CodecError as Amqp10CodecError
from tests.support.error_table import FROM_CODEC

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
LOCAL = {
    "ConfigError",
    "StartError",
    "SaslError",
    "TokenError",
    "BackEndError",
    "RecordError",
    "AskerError",
    "Unanswered",
    "NotTaken",
    "ClientRefused",
    "StillPassing",
    "ClientError",
    "OutputError",
    "NoJavaError",
    "NoSparkError",
}
"""Errors that no client is told: at the start, of the command line, of our own client, between processes of a broker,
and of a login, which is refused with AccessRefused."""
CONDITIONS = {
    "amqp": {
        *("internal-error", "not-found", "unauthorized-access", "decode-error", "resource-limit-exceeded"),
        *("not-allowed", "invalid-field", "not-implemented", "resource-locked", "precondition-failed"),
        *("resource-deleted", "illegal-state", "frame-size-too-small"),
    },
    "amqp:connection": {"forced", "framing-error", "redirect"},
    "amqp:session": {"window-violation", "errant-link", "handle-in-use", "unattached-handle"},
    "amqp:link": {"detach-forced", "transfer-limit-exceeded", "message-size-exceeded", "redirect", "stolen"},
    "amqp:transaction": {"unknown-id", "rollback", "timeout"},
}
"""The conditions of AMQP 1.0 (specification sections 2.8.15 to 2.8.18, and 4.5.8)."""
UNUSED = {
    "amqp:connection:redirect": "a broker has no other one to name",
    "amqp:link:redirect": "the same",
}
"""Conditions that no error has, with the reason."""
SCOPES = {
    "delivery": {
        *("decode-error", "invalid-field", "not-found", "unauthorized-access", "precondition-failed"),
        *("resource-locked", "resource-limit-exceeded", "unknown-id", "rollback", "timeout"),
    },
    "link": {
        *("stolen", "message-size-exceeded", "transfer-limit-exceeded", "resource-deleted", "not-implemented"),
        *("illegal-state", "detach-forced", "not-allowed"),
    },
    "session": {"window-violation", "errant-link", "handle-in-use", "unattached-handle", "not-allowed"},
    "connection": {
        *("forced", "framing-error", "decode-error", "illegal-state", "internal-error", "frame-size-too-small"),
    },
}
"""The smallest scope that each condition ends in AMQP 1.0."""


def subclasses(of: type[PenstockError]) -> Iterator[type[PenstockError]]:
    for each in of.__subclasses__():
        yield each
        yield from subclasses(each)


def all_errors() -> list[type[PenstockError]]:
    """Return every error class of the package."""
    for path in sorted((SOURCES / "penstock").rglob("*.py")):
        if re.search(r"^class \w+\(\w+\):", path.read_text(), re.MULTILINE) and path.name != "__main__.py":
            try:
                importlib.import_module(".".join(path.relative_to(SOURCES).with_suffix("").parts))
            except ModuleNotFoundError as missing:
                if missing.name is None or missing.name.startswith("penstock"):
                    raise  # Otherwise it is a library of an extra that is not installed.
    return [each for each in subclasses(PenstockError) if each.__module__.startswith("penstock.")]


def test_errors_for_clients_have_a_code_a_condition_and_a_status() -> None:
    names = {each.__name__ for each in all_errors()}
    assert {"ContentTooLarge", "Malformed", "CodecError", "StoreLost"} <= names
    for error in all_errors():
        local = issubclass(error, StoreError) or not LOCAL.isdisjoint(each.__name__ for each in error.__mro__)
        if issubclass(error, BrokerError):
            assert error.code in CODES, error
            assert error.closes in ("nothing", "channel", "connection"), error
            if error not in FROM_CODEC:
                assert error("").condition.rpartition(":")[2] in SCOPES[error.ends], error
        else:
            assert local or error in (CodecError, Amqp10CodecError), (
                f"{error} is neither told to clients nor known as local"
            )


@pytest.mark.parametrize("code", sorted(CODES))
def test_row_of_the_error_table_has_names_that_the_protocols_define(code: int) -> None:
    row = CODES[code]
    kind, _, name = row.condition.rpartition(":")
    assert name in CONDITIONS[kind]
    assert row.http_status in STATUS_WORDS
    assert row.name == ("FENCED" if code == 409 else ReplyCode(code).name)


def test_amqp10_conditions_have_an_error_each() -> None:
    every = {f"{kind}:{name}" for kind, names in CONDITIONS.items() for name in names}
    found = {error("").condition for error in subclasses(BrokerError) if error not in FROM_CODEC}
    assert (found | UNUSED.keys(), found & UNUSED.keys()) == (every, set())


@pytest.mark.parametrize("error", [each for each in subclasses(BrokerError) if each not in FROM_CODEC])
def test_http_server_answers_with_the_status_of_the_error_table(error: type[BrokerError]) -> None:
    answer = refused(error("a reason"))
    assert (answer.status, answer.error) == (
        error.finer_status or CODES[error.code].http_status,
        error.finer_word or STATUS_WORDS[answer.status],
    )
    assert str(answer) == "a reason"


@pytest.mark.parametrize("code", [ReplyCode.FRAME_ERROR, ReplyCode.SYNTAX_ERROR, ReplyCode.NOT_IMPLEMENTED])
def test_malformed_frame_has_the_code_of_the_codec(code: ReplyCode) -> None:
    error = CodecError("a reason", code)
    malformed = Malformed(error)
    assert (malformed.code, malformed.reply_text) == (int(code), f"{code.name} - a reason")
    assert (malformed.condition, malformed.http_status) == (error.condition, error.http_status)
    assert (error.condition, error.http_status) == (CODES[code].condition, CODES[code].http_status)
