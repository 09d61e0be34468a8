"""Run ``python -m attribution.check_method``."""

from attribution.check_method import run

if __name__ == "__main__":
    run()
