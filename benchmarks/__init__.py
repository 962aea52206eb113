"""How fast Daybreak is beside other ways to do the same, measured in one go on one machine.

make bench                                        the standard set, written into docs/benchmarks.md
make bench BENCH_ARGS="members --rows 8000000"    one job, printed

A job is a module with a `JOB`; `benchmarks.__main__` lists them.
"""
