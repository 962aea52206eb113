"""From settings to the parts: what an operator writes is what the parts get."""

import secrets
import socket
from contextlib import closing
from datetime import time, timedelta
from pathlib import Path

import pytest

from daybreak import bootstrap
from daybreak.credentials import keyring
from daybreak.domain.errors import OperatorError
from daybreak.export.gzip_member import codec_named
from daybreak.settings import Settings, load_settings
from daybreak.state.migrate import migrate


def settings_with(folder: Path, **variables: str) -> Settings:
    path = folder / "daybreak.toml"
    path.write_text('[source]\nlocation = "platform"\n', "utf-8")
    return load_settings(path, {f"DAYBREAK_{name}": value for name, value in variables.items()})


def test_what_is_set_reaches_the_run_plan(tmp_path: Path) -> None:
    plan = bootstrap.run_plan(
        settings_with(
            tmp_path,
            SNAPSHOT__PUBLISH_AT="05:30",
            SNAPSHOT__KEEP="9",
            SNAPSHOT__THREADS="3",
            SNAPSHOT__FORMATS="csv,json,ndjson",
            SNAPSHOT__COMPRESSION="small",
            SNAPSHOT__MEMORY_LIMIT="2GB",
            SNAPSHOT__MARGIN="20m",
            SNAPSHOT__VERIFY="sample",
            ACCESS__LINK_LIFETIME="10m",
            GUARD__MAX_DROP_SHARE="0.5",
            GUARD__LEADER_MIN_ROWS="7",
            GUARD__REFERENTIAL_CHECKS="false",
        )
    )
    assert plan.publish_at == time(5, 30)
    assert (plan.keep, plan.threads, plan.formats) == (9, 3, ("csv", "json", "ndjson"))
    assert plan.memory_limit_bytes == 2_000_000_000
    assert (plan.lead_least, plan.link_lifetime, plan.verify) == (
        timedelta(minutes=20),
        timedelta(minutes=10),
        "sample",
    )
    assert (plan.guard.drop_share, plan.guard.leader_least_rows, plan.guard.referential) == (0.5, 7, False)
    assert plan.compression == "zlib-ng-4"


@pytest.mark.parametrize("name", bootstrap.COMPRESSIONS.values())
def test_every_compression_exists(name: str) -> None:
    assert codec_named(name).name == name


def test_the_parts_of_a_web_process_agree(tmp_path: Path) -> None:
    settings = settings_with(
        tmp_path,
        BASE_URL="https://export.example.org/",
        ACCESS__SESSION_LIFETIME="2d",
        ACCESS__LOGIN_PER_SEAT="4/10m",
        ACCESS__SECOND_FACTOR_PER_SEAT="3/1m,9/1h",
        FILES__SERVE_GZIP_AS="encoding",
    )
    keyring.create(settings.keys.file, bootstrap.now_utc(), secrets.token_bytes)
    migrate(settings.state.url)
    with closing(socket.socket()) as hashing:
        wired = bootstrap.build(settings, hashing)
    try:
        services = wired.services
        assert services.settings.base_url == "https://export.example.org"
        assert services.settings.secure
        assert services.access.settings.issuer == services.downloads.settings.base_url == services.settings.base_url
        assert services.access.settings.session_lifetime == timedelta(days=2)
        assert services.access.settings.limits.login_seat_and_address == (4, 600)
        assert services.access.settings.limits.second_factor == ((3, 60), (9, 3600))
        assert services.settings.serve_gzip_as == "encoding"
    finally:
        wired.state.close()


def test_a_state_database_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="daybreakd"):
        bootstrap.open_state(settings_with(tmp_path))


def test_buckets_and_folders(tmp_path: Path) -> None:
    from daybreak.filestore.local_disk import LocalDisk

    assert isinstance(bootstrap.open_files(settings_with(tmp_path)), LocalDisk)
    assert bootstrap.temp_dir(settings_with(tmp_path)) == tmp_path / "files" / ".spill"
    bucket = settings_with(tmp_path, FILES__URL="s3://bucket/prefix")
    assert bucket.files_folder is None
    assert bootstrap.temp_dir(bucket) == tmp_path / ".spill"
