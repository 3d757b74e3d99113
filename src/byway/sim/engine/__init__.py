"""The engine: brokers, connections and clients under one clock.

`sim_clock` schedules. `network` and `connections` carry frames between brokers. `inbox`, `service`
and `nodes` serve brokers; `node_storage` and `simulated_files` are the disks. `sim_client` drives
the core of the client library over a `client_wire`; `client_watch` follows what its broker knows
of it and reports to an `observer`. The engine judges nothing and never imports the oracle.
"""
