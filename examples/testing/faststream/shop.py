"""Orders with FastStream: one service takes them, and another one charges them."""

import os

from faststream import FastStream
from faststream.rabbit import RabbitBroker, RabbitQueue, RabbitRouter

ORDERS = RabbitQueue("orders", arguments={"capacity-messages": 10, "hold-deadline": 60})
router = RabbitRouter()

charged: list[int] = []
"""Numbers of the orders that were charged; a real shop has a database."""


@router.subscriber(ORDERS)
async def charge(number: int) -> None:
    """Charge an order."""
    charged.append(number)


async def place(shop: RabbitBroker, number: int) -> None:
    """Place an order; returns when it is in the queue. Raises DeliveryError if the queue stays full."""
    await shop.publish(number, ORDERS)


def service(url: str) -> RabbitBroker:
    """Return the service that charges orders."""
    broker = RabbitBroker(url)
    broker.include_router(router)
    return broker


app = FastStream(service(os.environ.get("BROKER_URL", "amqp://guest:guest@127.0.0.1:5672/")))
