"""The state database's shape, step by step: the newest step and how a database gets there."""

HEAD = "r0001"
