"""Figures of a node with shards, beside a broker without them in the same run."""
