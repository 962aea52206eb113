"""Builder of an installation whose platform changes every day."""

import time
import uuid
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from daybreak.catalogue.formats import DEFAULT_FORMATS
from daybreak.credentials.signing_folder import create_keys
from daybreak.filestore.local_disk import LocalDisk
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.state.stores import State
from tests.acceptance.installation import Installation
from tests.configured import DEFAULTS, configured
from tests.parts.sources import duckdb_source
from tests.reference.days import ChangingPlatform
from tests.reference.platforms import write_parquet


@dataclass
class Builder:
    """Builder of an installation. `platform` changes every day. `sharing`: Delta Sharing is enabled. `signing`: the
    files are signed with the keys in `folder`.
    """

    installation: Installation
    platform: ChangingPlatform
    folder: Path
    runs: int = 0
    sharing: bool = False
    signing: bool = False

    def publish(self) -> None:
        """Publish the files of the platform, after the first time those of its next day."""
        if self.runs:
            self.platform.next_day()
        self.runs += 1
        location = self.folder / f"platform{self.runs}"
        write_parquet(self.platform.tables, location)
        with closing(self.installation.state()) as state:
            assert run_manually(self.context(state, location)).state == "published"

    def context(self, state: State, location: Path) -> RunContext:
        """Return what a run over a folder of the platform needs."""
        source = duckdb_source(location, self.folder / "spill")
        return RunContext(
            state=state, store=LocalDisk(self.installation.files_folder), source=source,
            settings=configured(DEFAULTS, guard={"enabled": False}, **self._settings(), **self._signing()),
            builder="test", clock=lambda: datetime.now(UTC), ticks=time.monotonic, new_id=lambda: str(uuid.uuid4()),
        )  # fmt: skip

    def _signing(self) -> dict[str, object]:
        if not self.signing:
            return {}
        create_keys(self.folder / "signing")
        return {"base_url": "https://export.example.org", "signing": {"folder": self.folder / "signing"}}

    def _settings(self) -> dict[str, dict[str, object]]:
        if not self.sharing:
            return {"snapshot": {"verify_deltas": 1.0}}
        formats = (*DEFAULT_FORMATS, "parquet")
        return {"snapshot": {"verify_deltas": 1.0, "formats": formats}, "sharing": {"enabled": True}}
