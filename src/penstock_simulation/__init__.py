"""Simulation of a queue on a virtual clock, with the broker's own core, for the planner and the replay.

A simulation has no thread, no socket and no wait. The only randomness is the seed of the workload, so the same inputs
give the same results on every machine.
"""
