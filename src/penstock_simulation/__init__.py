"""Simulation of a queue on a virtual clock, with the broker's own core: what the planner and the replay run.

A simulation has no thread, no socket and no wait. Its only source of chance is the seed of its workload, so the same
inputs give the same results on every machine.
"""
