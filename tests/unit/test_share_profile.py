"""Profile files of Delta Sharing."""

import io
from datetime import UTC, datetime

from delta_sharing.protocol import DeltaSharingProfile

from daybreak.sharing import share_profile


def test_python_client_reads_a_profile() -> None:
    expires_at = datetime(2026, 11, 24, 4, 0, 0, 5, tzinfo=UTC)
    content = share_profile("https://export.example.org/data", "service_api_x", expires_at)
    read = DeltaSharingProfile.read_from_file(io.BytesIO(content))
    assert read.share_credentials_version == 1
    assert read.endpoint == "https://export.example.org/data/sharing/v1"
    assert (read.bearer_token, read.expiration_time) == ("service_api_x", "2026-11-24T04:00:00Z")
    lasting = DeltaSharingProfile.read_from_file(io.BytesIO(share_profile("https://x.example", "y", None)))
    assert lasting.expiration_time is None
