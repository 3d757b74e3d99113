"""The oracle: what clients are owed, and checkers that find what is wrong with a run."""
