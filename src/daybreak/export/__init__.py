"""The export engine: from rows in the embedded engine to finished files, one set per Leader.

Rows are read once and divided among buckets by Leader. Compiled code sorts the rows of a bucket and encodes them as the
lines of every text format. The same thread compresses the lines and passes the files to the sink. Entry points:
`resource_export.export_resource` and `referential.referential_faults`.
"""
