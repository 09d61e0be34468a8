"""The metrics that every benchmark shares."""
