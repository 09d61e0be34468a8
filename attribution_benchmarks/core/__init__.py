"""From maps to numbers: metrics, benchmarks as definitions, shared controls, and the one loop that all of them go."""
