"""An outcome of a simulation, for tests of what is made of outcomes."""

from penstock_simulation.outcome import Outcome

OUTCOME = Outcome(10, 100, 90, 10, 80, 0.02, 0.0, 0.5, 0.1, 4, 2.5, 1.0, 64 * 2**20, 700, 1000.0, 0.01, 0.3)
