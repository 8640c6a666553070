"""Batch jobs over flow logs: `penstock flow analyze` and `penstock logs compact` run them (docs/analyze.md).

Plain DataFrames without Python functions on executors, so that a cluster need not have this package installed.
"""
