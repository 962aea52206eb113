"""Who may come in, as whom, and what they may do there."""
