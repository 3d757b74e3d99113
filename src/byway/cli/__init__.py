"""The `byway` command: one file a verb, no logic of its own; may import all, imported by none."""
