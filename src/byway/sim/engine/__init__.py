"""The engine: brokers, links and clients under one clock, and the faults that befall them."""
