"""The client library: publish, advertise and subscribe over TCP, with asyncio or without."""
