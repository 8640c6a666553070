"""Errors of the client."""

from __future__ import annotations

import pickle

import pytest

from penstock.client.errors import ChannelClosed, ClientError, ConnectError, ConnectionClosed, ControlError, Timeout

ERRORS = [
    (ConnectError("h", 5672, "nobody there"), "cannot connect to h:5672: nobody there"),
    (ConnectionClosed(320, "shutdown"), "the connection is closed: shutdown (320)"),
    (ConnectionClosed(None, "it broke"), "the connection is closed: it broke"),
    (ChannelClosed(404, "NOT_FOUND - no queue 'q' in vhost '/'"), "no queue 'q' in vhost '/' (404)"),
    (ChannelClosed(None, "the client closed it"), "the channel is closed: the client closed it"),
    (ControlError(409, "fenced", "A newer holder took over."), "A newer holder took over. (409 fenced)"),
    (Timeout("no answer within 2 s"), "no answer within 2 s"),
]


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda value: type(value).__name__)
def test_error_is_a_single_sentence_and_survives_pickling(error: ClientError, text: str) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) == text
    assert vars(again) == vars(error)
