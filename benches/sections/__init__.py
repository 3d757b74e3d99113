"""The sections of the matching bench: one file each, `measure(run)` gives the figures."""
