"""The client as a state machine: inputs in, actions out, no connection, clock or event loop."""
