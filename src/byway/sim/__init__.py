"""The deterministic simulator: whole networks of brokers, driven by one clock and one seed.

It drives the same broker core as the runtime does, and must not import the runtime. Topologies say
which brokers there are and how they are linked; they know nothing of messages.
"""
