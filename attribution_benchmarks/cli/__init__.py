"""What the commands of the benchmarks share: bundled models, figures, worker processes."""
