"""What the three benchmarks share: commands, statistics and tables, the report, served models."""
