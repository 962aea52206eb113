"""Row sources, one module per engine."""
