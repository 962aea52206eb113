"""HTTP building blocks: ranges, conditional requests, negotiation, problem details, file responses."""
