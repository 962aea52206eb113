"""The export engine: from rows in the embedded engine to finished files, one set per Leader.

The engine sorts a resource's rows. Compiled code encodes them as the lines of every text format. The lines of
one Leader are contiguous in a buffer, so they are split without copying. Threads compress the slices and pass them to
the sink. Entry points: `resource_export.export_resource` and `referential.referential_faults`.
"""
