"""Deltas: the rows of a Leader's CSV file that changed since the previous publication."""
