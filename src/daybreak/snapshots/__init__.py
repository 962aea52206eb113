"""Snapshots: when they are made, how a run goes, what holds one back, how one is published and when its files go."""
