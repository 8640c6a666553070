"""What a client's methods on a channel do: one table, one function a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.adapter.amqp091 import declaring, getting, messaging, transacting
from penstock.adapter.amqp091.channel import Channel
from penstock.wire.amqp091 import spec

Handler = Callable[[Channel, dict[str, object]], None]

CHANNEL_METHODS: Final[dict[int, Handler]] = {
    spec.CHANNEL_FLOW: messaging.channel_flow,
    spec.CHANNEL_FLOW_OK: messaging.nothing,
    spec.ACCESS_REQUEST: declaring.access_request,
    spec.EXCHANGE_DECLARE: declaring.exchange_declare,
    spec.EXCHANGE_DELETE: declaring.exchange_delete,
    spec.EXCHANGE_BIND: declaring.exchange_bind,
    spec.EXCHANGE_UNBIND: declaring.exchange_unbind,
    spec.QUEUE_DECLARE: declaring.queue_declare,
    spec.QUEUE_BIND: declaring.queue_bind,
    spec.QUEUE_UNBIND: declaring.queue_unbind,
    spec.QUEUE_PURGE: declaring.queue_purge,
    spec.QUEUE_DELETE: declaring.queue_delete,
    spec.BASIC_QOS: messaging.qos,
    spec.BASIC_CONSUME: messaging.consume,
    spec.BASIC_CANCEL: messaging.cancel,
    spec.BASIC_GET: getting.get,
    spec.BASIC_ACK: messaging.ack,
    spec.BASIC_NACK: messaging.nack,
    spec.BASIC_REJECT: messaging.reject,
    spec.BASIC_RECOVER: messaging.recover,
    spec.BASIC_RECOVER_ASYNC: messaging.recover_async,
    spec.CONFIRM_SELECT: messaging.confirm_select,
    spec.TX_SELECT: transacting.select,
    spec.TX_COMMIT: transacting.commit,
    spec.TX_ROLLBACK: transacting.rollback,
}
