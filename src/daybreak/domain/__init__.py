"""The field's own terms: who asks, what a snapshot is, and every error there is."""
