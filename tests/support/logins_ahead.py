"""Input of a client of AMQP 0-9-1 that waits for no answer, from its first byte to its close."""

from __future__ import annotations

from pamqp import commands

from tests.support.raw_client import GREETING, method_frame


def ahead(vhost: str = "/", password: str = "guest") -> bytes:
    """Return all that a client of AMQP 0-9-1 may send without an answer: it declares and purges a queue, and closes."""
    queue = "ahead"
    start_ok = commands.Connection.StartOk({"product": "bare socket"}, "PLAIN", f"\0guest\0{password}", "en_US")
    methods = [
        (0, start_ok),
        (0, commands.Connection.TuneOk(2047, 131072, 0)),
        (0, commands.Connection.Open(vhost)),
        (1, commands.Channel.Open()),
        (1, commands.Queue.Declare(queue=queue)),
        (1, commands.Queue.Purge(queue=queue)),
        (0, commands.Connection.Close(200, "", 0, 0)),
    ]
    return GREETING + b"".join(method_frame(channel, method) for channel, method in methods)


ANSWERS = [
    commands.Connection.Start, commands.Connection.Tune, commands.Connection.OpenOk, commands.Channel.OpenOk,
    commands.Queue.DeclareOk, commands.Queue.PurgeOk, commands.Connection.CloseOk,
]  # fmt: skip
"""Methods with which a broker answers, in this order."""
