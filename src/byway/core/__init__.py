"""The broker as a pure state machine: inputs in, actions out. No I/O, no clock, no chance."""
