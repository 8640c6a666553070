"""Errors of the source ``amqp``, beside those of `pyspark_penstock.errors`; each is one sentence."""

from pyspark_penstock.errors import SparkSourceError


class SpoolUnusable(SparkSourceError):
    """Spool that is in use, damaged, full, of another broker or of another checkpoint."""


class MessagesGone(SparkSourceError):
    """Messages that the checkpoint needs and the spool no longer has."""
