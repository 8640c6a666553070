"""Sessions of a connection over AMQP 1.0, at RabbitMQ's path."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from penstock.describe.session import session_in_full
from penstock.server.http.login import check_own
from penstock.server.http.objects import connection_of, reading_of
from penstock.server.http.request import ApiRequest, bad_request, json_response

AMQP10: Final = "AMQP 1.0"
"""Protocol of a connection with sessions, as its engine names it."""


async def sessions(request: ApiRequest) -> Response:
    """List the sessions of a connection over AMQP 1.0; 400 for one of AMQP 0-9-1, which has channels."""
    connection = connection_of(request)
    check_own(request, connection.user)
    if connection.engine.details()["protocol"] != AMQP10:
        raise bad_request("connection does not use AMQP 1.0")
    at = reading_of(request)
    rows = [session_in_full(each, at) for each in connection.engine.sessions()]
    return json_response([{"channel_number": row.get("number"), **row} for row in rows])
