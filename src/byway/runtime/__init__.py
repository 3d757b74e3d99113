"""The live network: brokers over TCP, and the client library."""
