"""One broker for all checklists, who takes part in their experiments, and settings that end with them."""

from tests.support.experiments import board, broker, consumer, producer, queue, refused, say, sums, taker

__all__ = ["board", "broker", "consumer", "producer", "queue", "refused", "say", "sums", "taker"]
