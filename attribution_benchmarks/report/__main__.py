"""Run ``python -m attribution_benchmarks.report``; see ``attribution_benchmarks.report.reproduce``."""

from attribution_benchmarks.report.reproduce import command

if __name__ == "__main__":
    command()
