"""Processor time of Spark's queries on Penstock's queues, beside their peers."""
