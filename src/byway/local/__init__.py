"""Whole networks in one process: brokers on loopback ports, for tests, demos and first steps."""
