"""The same tables in the protocols of other clients: one package per protocol."""
