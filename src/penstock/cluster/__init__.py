"""Cluster: several shards behind one address, each of which is a broker for its own virtual hosts."""
