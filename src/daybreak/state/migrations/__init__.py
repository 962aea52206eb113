"""Schema migrations of the state database. `HEAD` is the newest."""

HEAD = "r0014"
