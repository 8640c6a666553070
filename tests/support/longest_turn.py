"""The most work that one turn of a driver counts."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver


class LongestTurn:
    """Measures each turn from the end of the one before, so input that was received belongs to the next turn."""

    def __init__(self, driver: BrokerDriver) -> None:
        self._driver = driver
        self._before = int(driver.broker.work.done)
        self.longest = 0
        """Units of work of the longest turn so far."""
        self.turns = 0

    def turn(self, now: float | None = None) -> bool:
        """Make one turn; return whether there is more to do at once."""
        driver = self._driver
        driver.begin(driver.broker.now if now is None else now)
        more = driver.run_turn()
        driver.serve(driver.broker.now)
        done = int(driver.broker.work.done)
        self.longest = max(self.longest, done - self._before)
        self._before = done
        self.turns += 1
        return more or driver.scheduler.begin_turn()

    def run(self, now: float | None = None) -> None:
        """Make turns until nothing is left to do at once."""
        while self.turn(now):
            pass
