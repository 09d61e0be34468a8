"""Deletion curves of SVEA."""
