"""The crash test: a broker is killed under load, again and again, and must have lost nothing that it confirmed."""
