"""Table of the channel methods: one handler function per method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.protocols.amqp091 import basic_get, methods_basic, methods_topology, methods_tx
from penstock.protocols.amqp091.channel import Channel
from penstock.wire.amqp091 import spec

Handler = Callable[[Channel, dict[str, object]], None]

CHANNEL_METHODS: Final[dict[int, Handler]] = {
    spec.CHANNEL_FLOW: methods_basic.channel_flow,
    spec.CHANNEL_FLOW_OK: methods_basic.nothing,
    spec.ACCESS_REQUEST: methods_topology.access_request,
    spec.EXCHANGE_DECLARE: methods_topology.exchange_declare,
    spec.EXCHANGE_DELETE: methods_topology.exchange_delete,
    spec.EXCHANGE_BIND: methods_topology.exchange_bind,
    spec.EXCHANGE_UNBIND: methods_topology.exchange_unbind,
    spec.QUEUE_DECLARE: methods_topology.queue_declare,
    spec.QUEUE_BIND: methods_topology.queue_bind,
    spec.QUEUE_UNBIND: methods_topology.queue_unbind,
    spec.QUEUE_PURGE: methods_topology.queue_purge,
    spec.QUEUE_DELETE: methods_topology.queue_delete,
    spec.BASIC_QOS: methods_basic.qos,
    spec.BASIC_CONSUME: methods_basic.consume,
    spec.BASIC_CANCEL: methods_basic.cancel,
    spec.BASIC_GET: basic_get.get,
    spec.BASIC_ACK: methods_basic.ack,
    spec.BASIC_NACK: methods_basic.nack,
    spec.BASIC_REJECT: methods_basic.reject,
    spec.BASIC_RECOVER: methods_basic.recover,
    spec.BASIC_RECOVER_ASYNC: methods_basic.recover_async,
    spec.CONFIRM_SELECT: methods_basic.confirm_select,
    spec.TX_SELECT: methods_tx.select,
    spec.TX_COMMIT: methods_tx.commit,
    spec.TX_ROLLBACK: methods_tx.rollback,
}
