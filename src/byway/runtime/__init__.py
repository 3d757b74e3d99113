"""The broker process: its connections, its settings, its operations port."""
