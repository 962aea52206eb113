"""How fast files and links are served, beside the bare framework and nginx, measured in one go on one machine.

make bench BENCH_ARGS="serving --write"
"""
