"""Where a broker keeps its state: snapshots, the journal of its inputs, and the way back."""
