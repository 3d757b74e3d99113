"""Topologies: which brokers there are and how they are linked.

`tree` is what a topology is; `shapes`, `seed_trees` (the papers' networks) and `transit_stub` make
topologies, and `topology_spec` reads which one a scenario wants. They know nothing of messages.
"""
