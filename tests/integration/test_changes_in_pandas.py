"""Changes of shared tables in pandas, read by the client of Delta Sharing."""

from pathlib import Path

import delta_sharing.reader
import fsspec
import pandas as pd
import pytest
from delta_sharing.protocol import AddCdcFile

from daybreak.catalogue.resources import resource_named
from daybreak.export.delta.csv_rows import split_cells
from daybreak.export.delta.delta_lines import DeltaLines
from tests.unit.export.delta.test_change_files import LEADER, changes, exported

NUMBERS = [2**53 + 1, 2**63 - 1, 1 - 2**63]


@pytest.mark.parametrize("in_batches", [False, True])
def test_integers_are_exact(tmp_path: Path, in_batches: bool) -> None:
    """A `delete` row has no numbers. Without their type in the footer, pandas reads the others as floats."""
    resource = resource_named("campaign_links")
    campaign = "00000001-1111-4111-8111-111111111111"
    rows = [(campaign, LEADER, "link", f"https://example.org/{place}", *NUMBERS[place:], 1, 1)[:6] for place in (0, 1)]
    _, lines = exported(tmp_path, resource.name, rows)
    deleted = [DeltaLines(resource).delete(split_cells(line[:-1]))[0] for line in lines]
    frames = []
    for version, delta in enumerate((deleted, [*deleted, *(b'"I",' + line for line in lines)])):
        url = f"memory://{version}.parquet"
        fsspec.filesystem("memory").pipe(url, changes(resource.name, delta)[2])
        action = AddCdcFile(url, str(version), {}, 0, 0, version)
        frames.append(
            delta_sharing.reader.DeltaSharingReader._to_pandas(action, {}, for_cdf=True, limit=None,
                                                               convert_in_batches=in_batches)
        )  # fmt: skip
    frame = pd.concat(frames, axis=0, ignore_index=True)
    assert [str(frame[name].dtype) for name in ("RECIPIENT_COUNT", "HIT_COUNT")] == ["Int64", "Int64"]
    inserted = frame[frame["_change_type"] == "insert"]
    assert inserted["RECIPIENT_COUNT"].tolist() == NUMBERS[:2]
    assert inserted["HIT_COUNT"].tolist() == NUMBERS[1:]
    assert frame["HIT_COUNT"].isna().sum() == 4
