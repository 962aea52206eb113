"""Snapshots: scheduling, runs, checks before publication, publication and retention."""
