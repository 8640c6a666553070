"""Flow control: levels and thresholds, gates, fair queueing of waiting producers, publisher confirms, credit, timers.

Pure: no input or output, no clock, no randomness. The time is an argument, and required actions are return values.
mypyc compiles the whole package where a C compiler is found; without one it runs interpreted.
"""
