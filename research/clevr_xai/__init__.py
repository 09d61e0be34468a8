"""Analyses of the Relation Networks and of the rendered images."""
