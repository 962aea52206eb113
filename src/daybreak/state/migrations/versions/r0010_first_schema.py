"""First recorded schema. Instances of it exist, but new databases are created with the schema of this version."""

revision = "r0010"
down_revision = None
