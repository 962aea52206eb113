"""The hot path: rows to finished files, one set per Leader, as fast as two cores go.

    with source.open(as_of) as reading:
        reading.check()
        for resource in RESOURCES:
            report = export_resource(reading, resource, formats, sink, previous=..., ...)
        faults = referential_faults(reading, filled)
        reading.confirm()

The embedded engine sorts the rows, compiled code makes the text lines of every format at once; the lines of
a Leader lie next to each other in their buffers, so splitting is slicing; slices are compressed by threads and
handed to the sink.
"""

from __future__ import annotations

from daybreak.export.referential import referential_faults
from daybreak.export.resource_export import export_resource

__all__ = ["export_resource", "referential_faults"]
