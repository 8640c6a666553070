"""Flow logs for measuring `penstock analyze`: a recorded run, repeated."""
