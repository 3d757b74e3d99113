"""Framed TCP connections, as brokers and clients use them. They know nothing of routing."""
