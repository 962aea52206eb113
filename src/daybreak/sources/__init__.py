"""Where rows come from: one module per engine."""
