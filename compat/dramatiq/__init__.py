"""Written for this driver: Dramatiq's source package carries its tests, but not what they share."""
