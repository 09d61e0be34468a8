"""Compute scores in blocks, in one process or on Apache Beam, with the results of a single process.

Only ``pipeline`` imports Apache Beam, and nothing here imports TensorFlow or knows a benchmark.
"""
