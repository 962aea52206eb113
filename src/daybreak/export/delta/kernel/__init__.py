"""The compiled merge engine."""
