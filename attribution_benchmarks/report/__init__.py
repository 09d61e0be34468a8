"""The report: run all benchmarks, collect one matrix, test differences, and write a page."""
