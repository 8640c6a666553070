"""Batch jobs over flow logs: `penstock analyze` and `penstock log compact` run them (docs/analyze.md).

Plain DataFrames without Python functions on executors, so a cluster needs nothing of this package.
"""
