"""Settings > Display."""
