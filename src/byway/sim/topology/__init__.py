"""Topologies: which brokers there are and how they are linked. They know nothing of messages."""
