"""How fast files are made, beside other ways to make the same files, measured in one go on one machine.

make bench                                     the members job at a moderate size
make bench BENCH_ARGS="members --rows 8000000 --write"
"""
