"""Generator of a realistic messaging platform from a seed, for the demo, tests and benchmarks."""
