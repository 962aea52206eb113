"""Proofs of identity: pure functions over secrets, without state or network access."""
