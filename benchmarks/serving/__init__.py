"""Speed of links and files, compared with the bare framework and nginx, measured in one run on one machine.

make bench BENCH_ARGS="serving --write"
"""
