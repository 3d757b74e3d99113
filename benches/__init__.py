"""Benches: each measures one named thing and compares with baselines of the same run."""
