"""Orders over HTTP, into a queue: a customer hears at once when the shop cannot take an order now."""

import threading

import pika
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from pika.exceptions import AMQPConnectionError, NackError

QUEUE = {"capacity-messages": 100, "hold-deadline": 2}
RETRY_S = "5"
_local = threading.local()


def _channel() -> pika.adapters.blocking_connection.BlockingChannel:
    """Return this thread's channel; pika's connections belong to one thread."""
    if getattr(_local, "url", None) != settings.BROKER_URL or not _local.channel.is_open:
        connection = pika.BlockingConnection(pika.URLParameters(settings.BROKER_URL))
        _local.url, _local.channel = settings.BROKER_URL, connection.channel()
        _local.channel.confirm_delivery()
        _local.channel.queue_declare("orders", durable=True, arguments=QUEUE)
    return _local.channel


def _publish(body: bytes) -> None:
    """Publish an order, once more if the connection has been lost since the last one."""
    properties = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
    try:
        _channel().basic_publish("", "orders", body, properties)
    except AMQPConnectionError:
        _channel().basic_publish("", "orders", body, properties)


@csrf_exempt
@require_POST
def place(request: HttpRequest) -> HttpResponse:
    """Place an order: 202 when it is in the queue, 503 when there was no room for two seconds."""
    try:
        _publish(request.body)
    except (NackError, AMQPConnectionError):
        return HttpResponse("Too many orders, please try again.", status=503, headers={"Retry-After": RETRY_S})
    return HttpResponse(status=202)
