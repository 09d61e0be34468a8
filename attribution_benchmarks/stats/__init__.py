"""Scores in, tables and pictures out. Knows no TensorFlow."""
