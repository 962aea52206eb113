"""Benchmarks of Daybreak against other tools, in one session on one machine.

make bench                                        all jobs, written to docs/explanation/benchmarks.md
make bench BENCH_ARGS="members --rows 8000000"    one job, printed

Each job is a module; `benchmarks.__main__` lists them.
"""
