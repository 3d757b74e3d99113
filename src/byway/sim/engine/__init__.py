"""The engine: brokers, connections and clients under one clock.

`clock` schedules; `network` and `connections` carry frames; `inbox`, `service` and `nodes` serve
brokers; `sim_client`, with `client_outbox` and `client_registrations`, plays the clients. What
happens to clients is reported to an `observer`. The engine judges nothing and never imports the
oracle.
"""
