"""File stores: local disk and object stores."""
