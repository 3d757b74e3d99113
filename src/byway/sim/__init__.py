"""The deterministic simulator: whole networks of brokers, driven by one clock and one seed.

- `topology`: which brokers there are and how they are linked;
- `engine`: brokers, connections and clients under one clock, which report to an observer;
- `oracle`: the observer that judges what clients are given, and the checkers of brokers at rest;
- `world`: an engine with its oracle, and the faults that befall it;
- `meters`, `run_metrics`: what is measured;
- `scenario`: what a file says becomes a world with everything scheduled;
- `run`, `run_summary`: a scenario and a seed become a result;
- `revision`: a digest of the code that all this depends on.

It drives the same broker core as the runtime does, and must not import the runtime.
"""
