"""Analyses that no command needs; not installed."""
