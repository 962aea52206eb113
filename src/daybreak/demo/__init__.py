"""A believable messaging platform, made from a seed, for the demo, the tests and the benchmarks."""
