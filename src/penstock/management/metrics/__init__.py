"""Metrics in the text formats of Prometheus and OpenMetrics: pure, and rendered in slices."""
