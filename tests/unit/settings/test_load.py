"""The configuration: defaults, both sources, paths, and every fault at once with its key and fix."""

from datetime import time, timedelta
from pathlib import Path

import pytest

from daybreak.domain.errors import OperatorError
from daybreak.settings import SettingsFault, load_settings, setting_rows
from daybreak.settings.kinds import BadValue, Rate, duration, show_duration

SOURCE = '[source]\nlocation = "platform"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "daybreak.toml"
    path.write_text(text, "utf-8")
    return path


def faults(path: Path | None, environ: dict[str, str]) -> dict[str, str]:
    with pytest.raises(SettingsFault) as caught:
        load_settings(path, environ)
    return {fault.key: fault.detail for fault in caught.value.faults}


def test_defaults_are_the_promised_ones() -> None:
    settings = load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "platform"})
    assert settings.snapshot.publish_at == time(4)
    assert settings.access.session_lifetime == timedelta(days=7)
    assert settings.access.link_lifetime == timedelta(minutes=15)
    assert settings.snapshot.formats == ("csv", "json")
    assert settings.files.serve_gzip_as == "file"
    assert settings.snapshot.memory_limit == 1_000_000_000
    assert settings.access.second_factor_per_seat[0] == Rate(5, timedelta(minutes=5))


def test_relative_paths_start_from_the_file(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, SOURCE), {})
    assert settings.source.location == str(tmp_path / "platform")
    assert settings.state.url == f"sqlite:///{tmp_path}/state.db"
    assert settings.keys.file == tmp_path / "keyring.json"
    assert settings.files_folder == tmp_path / "files"
    assert settings.folder == tmp_path


def test_a_variable_overrides_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, SOURCE + "[snapshot]\nkeep = 5\nthreads = 2\n")
    environ = {
        "DAYBREAK_SNAPSHOT__KEEP": "9",
        "DAYBREAK_TRUSTED_PROXIES": "10.0.0.0/8, ::1",
        "DAYBREAK_REQUIRE_HTTPS": "false",
    }
    settings = load_settings(path, environ)
    assert (settings.snapshot.keep, settings.snapshot.threads) == (9, 2)
    assert [str(network) for network in settings.trusted_proxies] == ["10.0.0.0/8", "::1/128"]


def test_every_fault_is_listed_at_once_with_its_key_and_fix(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        base_url = "https://files.csv.example.org"
        workers = "many"
        unknown = 1
        [state]
        url = "mysql://somewhere"
        [snapshot]
        keeep = 3
        publish_at = "4am"
        memory_limit = "plenty"
        formats = ["csv", "csv"]
        [guard]
        max_drop_share = 20
        [access]
        session_lifetime = "a week"
        """,
    )
    found = faults(path, {"DAYBREAK_SNAPSHOT__TREADS": "2"})
    assert set(found) == {
        "DAYBREAK_SNAPSHOT__TREADS",
        "access.session_lifetime",
        "base_url",
        "guard.max_drop_share",
        "snapshot.formats",
        "snapshot.keeep",
        "snapshot.memory_limit",
        "snapshot.publish_at",
        "source.location",
        "state.url",
        "unknown",
        "workers",
    }
    assert "snapshot.keep" in found["snapshot.keeep"]
    assert "DAYBREAK_SNAPSHOT__THREADS" in found["DAYBREAK_SNAPSHOT__TREADS"]
    assert "DAYBREAK_SOURCE__LOCATION" in found["source.location"]
    assert '"04:00"' in found["snapshot.publish_at"]


@pytest.mark.parametrize(
    "base_url",
    [
        "https://CSV.example.org",
        "https://example.org/csv-files",
        "ftp://example.org",
        "example.org",
        "https://example.org/?a=b",
        "https://user@example.org",
        "https://exa mple.org",
        "http://[::1",
        "http://example.org:99999",
    ],
)
def test_a_base_url_that_links_cannot_be_made_from_is_refused(base_url: str) -> None:
    assert "base_url" in faults(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_BASE_URL": base_url})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("HTTPS://Export.Example.org:443/Files/", "https://export.example.org/Files"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://export.example.org:", "https://export.example.org"),
    ],
)
def test_a_base_url_is_what_browsers_make_of_it(written: str, meant: str) -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_BASE_URL": written}
    assert load_settings(None, environ).base_url == meant


@pytest.mark.parametrize("url", ["s3:/bucket", "s3:bucket", "S3://bucket", "s3://", "ftp://example.org/files", ""])
def test_files_are_in_a_folder_or_a_bucket_and_not_in_a_folder_called_s3(url: str) -> None:
    assert (
        "s3://bucket/prefix"
        in faults(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_FILES__URL": url})["files.url"]
    )


@pytest.mark.parametrize("rates", [[], ["0/5m"], ["5/0s"], ["5/9999999w"]])
def test_guessing_at_a_second_factor_is_always_bounded(tmp_path: Path, rates: list[str]) -> None:
    path = written(tmp_path, f'[source]\nlocation = "x"\n[access]\nsecond_factor_per_seat = {rates}\n')
    assert set(faults(path, {})) == {"access.second_factor_per_seat"}


def test_a_builder_gets_no_less_memory_than_it_can_work_with() -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_SNAPSHOT__MEMORY_LIMIT": "200MB"}
    assert load_settings(None, environ).snapshot.memory_limit == 200_000_000
    found = faults(None, environ | {"DAYBREAK_SNAPSHOT__MEMORY_LIMIT": "199MB"})
    assert 'write a size of at least "200MB"' in found["snapshot.memory_limit"]


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    environ = {
        # With the engine that is there by default it would be a file's name, shown to whoever reads the log.
        "DAYBREAK_SOURCE__LOCATION": "postgresql://reader:hunter2@h/d",
        "DAYBREAK_REQUIRE_HTTPS": "true",
        "DAYBREAK_ACCESS__SESSION_LIFETIME": "5m",
        "DAYBREAK_SNAPSHOT__FORMATS": "csv,parquet",
        "DAYBREAK_SNAPSHOT__MODELS_DIR": str(tmp_path / "missing"),
        "DAYBREAK_DIRECTORY__SEATS": "SELECT 1",
    }
    assert set(faults(None, environ)) == {
        "require_https",
        "access.link_lifetime",
        "snapshot.formats",
        "snapshot.models_dir",
        "source.engine",
        "directory",
    }


def test_a_secret_is_shown_in_no_fault_and_no_repr(tmp_path: Path) -> None:
    with pytest.raises(SettingsFault) as caught:
        load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_STATE__URL": "postgres//u:hunter2@h/d"})
    assert "hunter2" not in str(caught.value)
    for letter in "/?#[":
        with pytest.raises(SettingsFault, match="%-codes") as caught:
            load_settings(
                None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_STATE__URL": f"postgres://u:hun{letter}ter2@h/d"}
            )
        assert "ter2" not in str(caught.value)
    settings = load_settings(
        None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_STATE__URL": "postgres://u:hunter2@h/d"}
    )
    assert settings.state.url == "postgresql://u:hunter2@h/d"
    assert "hunter2" not in repr(settings)


def test_a_file_that_is_missing_or_not_toml_says_so(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.toml", "daybreakd init"), (written(tmp_path, "base_url = "), "is not TOML")):
        with pytest.raises(OperatorError, match=words) as told:
            load_settings(path, {})
        assert told.value.code == "settings_fault"


def test_a_file_may_begin_with_the_mark_that_some_editors_write(tmp_path: Path) -> None:
    path = written(tmp_path, '\ufeff[source]\nlocation = "platform"\n')
    assert load_settings(path, {}).source.location == str(tmp_path / "platform")


def test_variables_of_others_are_left_alone() -> None:
    load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_CONFIG": "a", "DAYBREAK_TOKEN": "b", "PATH": "c"})


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("1h30m", 5400), ("7d", 604_800), ("2w", 1_209_600)])
def test_durations(text: str, seconds: int) -> None:
    assert duration(text) == timedelta(seconds=seconds)
    assert duration(show_duration(duration(text))) == duration(text)


@pytest.mark.parametrize("text", ["", "7", "d", "7 d", "-1d", "1.5h", "7days", "99999999999999d"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(BadValue):
        duration(text)


def test_every_setting_says_what_it_is_for() -> None:
    rows = list(setting_rows())
    assert len({row.key for row in rows}) == len(rows) > 40
    assert all(row.text and row.written for row in rows)
