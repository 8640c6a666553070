"""Flow logs for measuring `penstock flow analyze`: a recorded run, repeated."""
