"""The Delta Sharing protocol, version 1, with `responseformat=parquet`."""
