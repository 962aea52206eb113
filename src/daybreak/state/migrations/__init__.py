"""Schema migrations of the state database. `HEAD` is the newest, `FIRST` the oldest that is migrated."""

FIRST = "r0010"
HEAD = "r0014"
