"""Construction of the service: its components get the values of the settings."""

import secrets
from pathlib import Path

import pytest

from daybreak import bootstrap
from daybreak.credentials import keyring
from daybreak.domain.clock import now_utc
from daybreak.domain.errors import OperatorError
from daybreak.settings import Settings, load_settings
from daybreak.state.migrate import migrate


def settings_with(folder: Path, **variables: str) -> Settings:
    path = folder / "daybreak.toml"
    path.write_text('[source]\nlocation = "platform"\n', "utf-8")
    return load_settings(path, {f"DAYBREAK_{name}": value for name, value in variables.items()})


def test_all_services_share_the_settings(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, BASE_URL="https://export.example.org/")
    keyring.create(settings.keys.file, now_utc(), secrets.token_bytes)
    migrate(settings.state.url.get_secret_value())
    wired = bootstrap.build(settings)
    try:
        services = wired.services
        assert services.settings == settings
        assert services.settings.base_url == "https://export.example.org"
        assert services.settings.secure
    finally:
        wired.services.hashing.close()
        wired.state.close()


def test_state_database_without_a_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="daybreakd"):
        bootstrap.open_state(settings_with(tmp_path))


def test_file_store_and_spill_folder_follow_files_url(tmp_path: Path) -> None:
    from daybreak.filestore.local_disk import LocalDisk

    assert isinstance(bootstrap.open_files(settings_with(tmp_path)), LocalDisk)
    assert settings_with(tmp_path).spill_folder == tmp_path / "files" / ".spill"
    bucket = settings_with(tmp_path, FILES__URL="s3://bucket/prefix")
    assert bucket.files.folder is None
    assert bucket.spill_folder == tmp_path / ".spill"
