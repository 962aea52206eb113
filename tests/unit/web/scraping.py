"""A scrape of one collector."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector


def lines(collector: Collector) -> list[str]:
    """Return the lines of a scrape."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode().splitlines()
