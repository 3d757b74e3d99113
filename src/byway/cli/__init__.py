"""The `byway` command: one file for each verb, without logic of its own; imported by none."""
