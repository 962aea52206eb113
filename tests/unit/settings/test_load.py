"""Loading the configuration: defaults, file and variables, paths, and the report of all faults."""

from datetime import time, timedelta
from pathlib import Path

import pytest

from daybreak.domain.errors import OperatorError
from daybreak.settings import Rate, SettingsFault, load_settings
from daybreak.settings.load import secret_in_file
from daybreak.settings.reference import setting_rows
from daybreak.settings.text_forms import InvalidValue, duration_in_words, format_duration, parse_duration

SOURCE = '[source]\nlocation = "platform"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "daybreak.toml"
    path.write_text(text, "utf-8")
    return path


def faults(path: Path | None, environ: dict[str, str]) -> dict[str, str]:
    with pytest.raises(SettingsFault) as caught:
        load_settings(path, environ)
    return {fault.key: fault.detail for fault in caught.value.faults}


def test_defaults_are_the_documented_ones() -> None:
    settings = load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "platform"})
    assert settings.snapshot.publish_at == time(4)
    assert settings.access.session_lifetime == timedelta(days=7)
    assert settings.access.link_lifetime == timedelta(minutes=15)
    assert settings.snapshot.formats == ("csv", "json")
    assert settings.files.serve_gzip_as == "file"
    assert settings.snapshot.memory_limit == 1_000_000_000
    assert settings.access.second_factor_per_seat[0] == Rate(5, timedelta(minutes=5))


def test_relative_paths_are_resolved_against_the_file(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, SOURCE), {})
    assert settings.source.location.get_secret_value() == str(tmp_path / "platform")
    assert settings.state.url.get_secret_value() == f"sqlite:///{tmp_path}/state.db"
    assert settings.keys.file == tmp_path / "keyring.json"
    assert settings.files.folder == tmp_path / "files"
    assert settings.file == tmp_path / "daybreak.toml"


def test_variable_overrides_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, SOURCE + "[snapshot]\nkeep = 5\nthreads = 2\n")
    environ = {
        "DAYBREAK_SNAPSHOT__KEEP": "9",
        "DAYBREAK_TRUSTED_PROXIES": "10.0.0.0/8, ::1",
        "DAYBREAK_REQUIRE_HTTPS": "false",
    }
    settings = load_settings(path, environ)
    assert (settings.snapshot.keep, settings.snapshot.threads) == (9, 2)
    assert [str(network) for network in settings.trusted_proxies] == ["10.0.0.0/8", "::1/128"]


def test_all_faults_are_listed_with_key_and_fix(tmp_path: Path) -> None:
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


def test_sharing_needs_parquet_files() -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_SHARING__ENABLED": "true"}
    found = faults(None, environ)
    assert found.keys() == {"sharing.enabled"}
    assert found["sharing.enabled"].endswith("Add parquet to snapshot.formats, or set sharing.enabled to false.")
    settings = load_settings(None, environ | {"DAYBREAK_SNAPSHOT__FORMATS": "csv,json,parquet"})
    assert settings.sharing.enabled


@pytest.mark.parametrize("key", ["trusted_proxies", "events.allowed_networks", "snapshot.formats"])
def test_lists_in_variables_have_commas(key: str) -> None:
    variable = "DAYBREAK_" + key.upper().replace(".", "__")
    fault = faults(None, {"DAYBREAK_SOURCE__LOCATION": "platform", variable: '["10.0.0.0/8"]'})[key]
    assert fault.endswith(" In a variable, separate entries with commas, without brackets.")


@pytest.mark.parametrize(
    ("variables", "fault"),
    [
        ({"ATTACH__S3": "true"}, "attach.s3: true (from DAYBREAK_ATTACH__S3) is invalid. Add parquet"),
        (
            {"ATTACH__ICEBERG": "true"},
            "attach.iceberg: true (from DAYBREAK_ATTACH__ICEBERG) is invalid. Set attach.s3 to true",
        ),
        (
            {"ATTACH__S3": "true", "SNAPSHOT__FORMATS": "csv,json,parquet", "ATTACH__URL": "https://x.example.org/s3"},
            'attach.url: "https://x.example.org/s3" (from DAYBREAK_ATTACH__URL) is invalid. Use a URL without a path',
        ),
        (
            {"ATTACH__S3": "true", "SNAPSHOT__FORMATS": "csv,json,parquet", "BASE_URL": "https://x.example.org/export"},
            'attach.url: "https://x.example.org/export" is invalid. Use a URL without a path',
        ),
    ],
)
def test_s3_needs_parquet_and_a_url_without_path(variables: dict[str, str], fault: str) -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", **{f"DAYBREAK_{name}": value for name, value in variables.items()}}
    with pytest.raises(SettingsFault) as raised:
        load_settings(None, environ)
    assert [str(each)[: len(fault)] for each in raised.value.faults] == [fault]


def test_attach_url_defaults_to_base_url() -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_BASE_URL": "https://export.example.org/"}
    assert load_settings(None, environ).attach_url == "https://export.example.org"
    environ["DAYBREAK_ATTACH__URL"] = "https://S3.example.org/"
    assert load_settings(None, environ).attach_url == "https://s3.example.org"


@pytest.mark.parametrize(
    ("listen", "metrics", "overlap"),
    [
        ("127.0.0.1:8400", "127.0.0.1:8400", True),
        ("0.0.0.0:8400", "127.0.0.1:8400", True),
        ("127.0.0.1:8400", "[::]:8400", True),
        ("[::1]:8400", "[0:0::1]:8400", True),
        ("127.0.0.1:8400", "localhost:8400", True),
        ("Export.example.org:8400", "export.example.org:8400", True),
        ("127.0.0.1:8400", "127.0.0.1:9400", False),
        ("127.0.0.1:8400", "192.0.2.1:8400", False),
        ("127.0.0.1:8400", "[::1]:8400", False),
        ("192.0.2.1:8400", "localhost:8400", False),
        ("unix:/run/daybreak/web:8400", "127.0.0.1:8400", False),
    ],
)
def test_metrics_need_their_own_port(listen: str, metrics: str, overlap: bool) -> None:
    environ = {
        "DAYBREAK_SOURCE__LOCATION": "x",
        "DAYBREAK_LISTEN": listen,
        "DAYBREAK_METRICS__LISTEN": metrics,
    }
    if not overlap:
        assert load_settings(None, environ).metrics.listen == metrics
        return
    assert faults(None, environ) == {
        "metrics.listen": f'"{metrics}" (from DAYBREAK_METRICS__LISTEN) is invalid. The service listens on this port '
        f'(listen = "{listen}"). Set metrics.listen to another port.'
    }


@pytest.mark.parametrize("url", ["platform", "platform/files"])
def test_files_are_outside_of_the_source(url: str) -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "platform", "DAYBREAK_FILES__URL": url}
    assert "Use a folder outside of source.location" in faults(None, environ)["files.url"]
    assert load_settings(None, {**environ, "DAYBREAK_FILES__URL": "platform-files"}).files.folder is not None


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
def test_unusable_base_url_is_refused(base_url: str) -> None:
    assert "base_url" in faults(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_BASE_URL": base_url})


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("HTTPS://Export.Example.org:443/Files/", "https://export.example.org/Files"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://export.example.org:", "https://export.example.org"),
    ],
)
def test_base_url_is_normalized(written: str, expected: str) -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_BASE_URL": written}
    assert load_settings(None, environ).base_url == expected


@pytest.mark.parametrize(
    "url", ["s3:/bucket", "s3:bucket", "S3://bucket", "s3://", "gs:///prefix", "ftp://example.org/files", ""]
)
def test_mistyped_bucket_url_is_not_a_folder(url: str) -> None:
    assert (
        "s3://bucket/prefix"
        in faults(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_FILES__URL": url})["files.url"]
    )


@pytest.mark.parametrize("prefix", ["a#b", "a?b", "a//b", "../b", "a/./b", "a/..", "/b"])
def test_prefix_that_the_bucket_would_not_have_is_refused(prefix: str) -> None:
    """Otherwise `s3://bucket/a#b` would have the files of `s3://bucket/a`, which may belong to another installation."""
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_FILES__URL": f"gs://bucket/{prefix}"}
    assert "from the prefix" in faults(None, environ)["files.url"]
    environ["DAYBREAK_FILES__URL"] = "gs://bucket/a b/.c/d..e/"
    assert load_settings(None, environ).files.url == "gs://bucket/a b/.c/d..e"


@pytest.mark.parametrize("rates", [[], ["0/5m"], ["5/0s"], ["5/9999999w"]])
def test_second_factor_limits_cannot_be_removed(tmp_path: Path, rates: list[str]) -> None:
    path = written(tmp_path, f'[source]\nlocation = "x"\n[access]\nsecond_factor_per_seat = {rates}\n')
    assert set(faults(path, {})) == {"access.second_factor_per_seat"}


def test_memory_limit_has_a_minimum() -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_SNAPSHOT__MEMORY_LIMIT": "450MB"}
    assert load_settings(None, environ).snapshot.memory_limit == 450_000_000
    found = faults(None, environ | {"DAYBREAK_SNAPSHOT__MEMORY_LIMIT": "449MB"})
    assert 'at least "450MB"' in found["snapshot.memory_limit"]


def test_contradicting_settings_are_refused(tmp_path: Path) -> None:
    environ = {
        # With the default engine duckdb, the URL would be logged as a file name, with its password.
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
        "source.location",
        "directory.access",
    }


def test_secrets_are_not_in_faults_and_repr(tmp_path: Path) -> None:
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
    assert settings.state.url.get_secret_value() == "postgresql://u:hunter2@h/d"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DAYBREAK_MAIL__URL", "smtp://u:hunter2@mail.example.org"),
        ("DAYBREAK_BASE_URL", "https://example.org/?token=hunter2"),
        ("DAYBREAK_OIDC__ISSUER", "https://u:hunter2@id.example.org"),
        ("DAYBREAK_FILES__URL", "https://u:hunter2@example.org"),
        ("DAYBREAK_SOURCE__LOCATION", "mysql://u:hunter2@db/platform"),
    ],
)
def test_invalid_url_is_reported_without_its_secrets(key: str, value: str) -> None:
    with pytest.raises(SettingsFault) as caught:
        load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", key: value})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("username", "password"), [("zoë", "secret"), ("zoe", "geheimä")])
def test_login_that_smtp_cannot_send_is_refused(username: str, password: str) -> None:
    mail = {"DAYBREAK_MAIL__USERNAME": username, "DAYBREAK_MAIL__PASSWORD": password}
    with pytest.raises(SettingsFault, match=r"mail\.password.*ASCII") as caught:
        load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", **mail})
    assert password not in str(caught.value)


def test_missing_or_invalid_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="daybreakd init") as caught:
        load_settings(tmp_path / "none.toml", {})
    assert caught.value.code == "settings_fault"
    for content in ("base_url = ", f"x = {'[' * 5_000}"):
        with pytest.raises(OperatorError, match="is not TOML") as caught:
            load_settings(written(tmp_path, content), {})
        assert caught.value.code == "settings_fault"


def test_file_in_another_encoding_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "daybreak.toml"
    path.write_bytes(b"# \xff\n")
    with pytest.raises(OperatorError) as caught:
        load_settings(path, {})
    assert caught.value.message == f"{path} is not UTF-8 text. Save it as UTF-8."
    assert caught.value.code == "settings_fault"


@pytest.mark.parametrize("engine", ["duckdb", "postgresql", "spark"])
def test_empty_source_location_is_refused(tmp_path: Path, engine: str) -> None:
    path = written(tmp_path, f'[source]\nengine = "{engine}"\nlocation = ""\n')
    assert faults(path, {})["source.location"].startswith("is empty. Use a DuckDB file, ")
    variable = {"DAYBREAK_SOURCE__ENGINE": engine, "DAYBREAK_SOURCE__LOCATION": ""}
    assert faults(None, variable)["source.location"].startswith("is empty (from DAYBREAK_SOURCE__LOCATION). Use ")
    assert faults(None, variable | {"DAYBREAK_SOURCE__LOCATION": " "}).keys() == {"source.location"}


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, '\ufeff[source]\nlocation = "platform"\n')
    assert load_settings(path, {}).source.location.get_secret_value() == str(tmp_path / "platform")


@pytest.mark.parametrize(
    "variable",
    ["DAYBREAK_CONFIG", "DAYBREAK_TOKEN", "PATH", "DAYBREAK_PORT", "DAYBREAK_PORT_8400_TCP_ADDR",
     "DAYBREAK_WEB_SERVICE_PORT_HTTP", "DAYBREAK_X"],
)  # fmt: skip
def test_variables_of_other_programs_are_ignored(variable: str) -> None:
    """Kubernetes sets some of them in every container."""
    load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", variable: "tcp://10.0.0.1:8400"})


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("1h30m", 5400), ("7d", 604_800), ("2w", 1_209_600)])
def test_durations_are_parsed_and_formatted(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert parse_duration(format_duration(parse_duration(text))) == parse_duration(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("15m", "15 minutes"), ("90m", "1 hour 30 minutes"), ("1d", "1 day"), ("45s", "45 seconds")],
)
def test_durations_are_formatted_in_words(text: str, words: str) -> None:
    assert duration_in_words(parse_duration(text)) == words


@pytest.mark.parametrize("text", ["", "7", "d", "7 d", "-1d", "1.5h", "7days", "99999999999999d"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_duration(text)


def test_every_setting_has_a_description() -> None:
    rows = list(setting_rows())
    assert len({row.key for row in rows}) == len(rows) > 40
    assert all(row.text and row.written for row in rows)


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
        "spark.executorEnv.AWS_ACCESS_KEY_ID",
        "spark.executorEnv.AWS_SESSION_TOKEN",
        "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net",
        "spark.sql.catalog.pg.password",
        "spark.ssl.keyPassword",
    ],
)
def test_secrets_among_the_settings_of_spark_are_refused(tmp_path: Path, name: str) -> None:
    """They would be arguments of a program, which all users of the machine can see."""
    found = faults(written(tmp_path, SOURCE + f'[source.spark]\n"{name}" = "hidden"\n'), {})
    assert "spark-defaults.conf" in found["source.spark"]
    assert "hidden" not in found["source.spark"]


def test_references_to_secrets_are_settings_of_spark(tmp_path: Path) -> None:
    names = ("spark.kubernetes.executor.secretKeyRef.KEY", "spark.kubernetes.driver.secrets.store", "spark.master")
    lines = "\n".join(f'"{name}" = "x"' for name in names)
    assert set(load_settings(written(tmp_path, SOURCE + f"[source.spark]\n{lines}\n"), {}).source.spark) == set(names)


@pytest.mark.parametrize(
    ("variable", "suggestion"),
    [
        ("DAYBREAK_LOCATION", "DAYBREAK_SOURCE__LOCATION"),
        ("DAYBREAK_SOURCE_LOCATION", "DAYBREAK_SOURCE__LOCATION"),
        ("DAYBREAK_SORCE__LOCATION", "DAYBREAK_SOURCE__LOCATION"),
        ("DAYBREAK_WORKER", "DAYBREAK_WORKERS"),
        ("DAYBREAK_LOGLEVEL", "DAYBREAK_LOG_LEVEL"),
    ],
)
def test_misspelled_variable_has_a_suggestion(variable: str, suggestion: str) -> None:
    found = faults(None, {"DAYBREAK_SOURCE__LOCATION": "x", variable: "2"})
    assert found == {variable: f"is not a setting. Did you mean {suggestion}?"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[state]\nurl = "postgresql://daybreak:secret@db/daybreak"', "state.url"),
        ('[source]\nlocation = "postgresql://db/platform?user=a&password=b"', "source.location"),
        ('[mail]\npassword = "secret"', "mail.password"),
        ('[oidc]\nclient_secret = "secret"', "oidc.client_secret"),
        ('[source.spark]\n"spark.hadoop.fs.s3a.secret.key" = "secret"', "source.spark"),
        ('[state]\nurl = "postgresql://daybreak@db/daybreak"', None),
        ('[oidc]\nclient_secret_file = "secret"\npassword_login = true', None),
        ('[mail]\npassword = ""', None),
        ("", None),
    ],
)
def test_secret_in_a_file_is_found(tmp_path: Path, text: str, key: str | None) -> None:
    assert secret_in_file(written(tmp_path, text)) == key


@pytest.mark.parametrize(
    ("text", "key", "advice"),
    [
        ("[snapshots]\nkeep = 1", "snapshots", "Did you mean snapshot?"),
        ("snapshot_keep = 1", "snapshot_keep", "Did you mean snapshot.keep?"),
        ("publish_at = '05:00'", "publish_at", "Did you mean snapshot.publish_at?"),
        ("[snapshot]\nretention = 1", "snapshot.retention", "Remove it."),
        ("url = 'smtps://mail.example.org'", "url", "Remove it."),
    ],
)
def test_unknown_setting_has_a_suggestion_only_if_one_is_near(tmp_path: Path, text: str, key: str, advice: str) -> None:
    found = faults(written(tmp_path, f"{text}\n{SOURCE}"), {})
    assert found == {key: f"is not a setting. {advice}"}


@pytest.mark.parametrize("stray", ["\n", " ", "\r\n", "\0", "\udcff"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state.url", "sqlite:///state.db"),
        ("files.url", "files"),
        ("files.url", "s3://bucket/prefix"),
        ("files.endpoint", "http://127.0.0.1:9000"),
        ("keys.file", "keyring.json"),
        ("snapshot.temp_dir", "spill"),
        ("source.location", "platform"),
        ("listen", "unix:/run/web.sock"),
        ("listen", "127.0.0.1:8400"),
        ("metrics.listen", "127.0.0.1:9400"),
        ("mail.username", "exports"),
        ("base_url", "http://127.0.0.1"),
        ("oidc.issuer", "https://login.example.org"),
        ("mail.url", "smtps://mail.example.org"),
    ],
)
def test_value_of_another_line_or_with_spaces_around_is_refused(key: str, value: str, stray: str) -> None:
    """It would name another file or server, where a service begins without its files or seats."""
    variable = f"DAYBREAK_{key.replace('.', '__').upper()}"
    others = {"DAYBREAK_SOURCE__LOCATION": "x"}
    if key == "mail.username":
        others["DAYBREAK_MAIL__PASSWORD"] = "secret"
    with pytest.raises(SettingsFault) as caught:
        load_settings(None, others | {variable: value + stray})
    assert [(fault.key, "Remove" in fault.detail) for fault in caught.value.faults] == [(key, True)]
    assert len(str(caught.value).splitlines()) == 1 + len(caught.value.faults)


@pytest.mark.parametrize(
    ("key", "form"),
    [("state.url", "sqlite:///{}"), ("files.url", "file://{}"), ("files.url", "{}"), ("keys.file", "{}")],
)
def test_loop_of_links_is_a_fault_of_its_setting(tmp_path: Path, key: str, form: str) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", f"DAYBREAK_{key.replace('.', '__').upper()}": form.format(loop / "x")}
    assert "without a loop of links" in faults(None, environ)[key]


def test_value_in_place_of_a_section_is_a_fault_with_variables_of_the_section(tmp_path: Path) -> None:
    """It would be dropped, and the service would send no mail."""
    file = written(tmp_path, f'mail = "smtps://mail.example.org"\n{SOURCE}')
    found = faults(file, {"DAYBREAK_MAIL__USERNAME": "exports", "DAYBREAK_MAIL__PASSWORD": "secret"})
    assert found == {"mail": "is a section. Write [mail] and its settings below it."}


@pytest.mark.parametrize("key", ["oidc.client_secret", "mail.password"])
def test_secret_with_a_line_break_is_refused_without_its_value(key: str) -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", f"DAYBREAK_{key.replace('.', '__').upper()}": "hunter2\n"}
    with pytest.raises(SettingsFault, match=f"{key}: the value .* Remove line breaks") as caught:
        load_settings(None, environ)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "advice"),
    [
        ("keys.file", "~nobody-of-this-name/keyring.json", "without the home folder of an unknown user"),
        ("state.url", "sqlite:///~nobody-of-this-name/state.db", "without the home folder of an unknown user"),
        ("files.url", "~nobody-of-this-name/files", "without the home folder of an unknown user"),
        ("source.location", "~nobody-of-this-name/x", "without the home folder of an unknown user"),
        ("snapshot.models_dir", "x" * 300, "cannot be opened: File name too long."),
        ("access.breached_passwords", "x" * 300, "cannot be opened: File name too long."),
        ("snapshot.memory_limit", "9" * 400 + "TB", "Use a smaller size."),
        ("access.daily_bytes", "10000000TB", "Use a smaller size."),
        ("telemetry.request_share", "nan", "from 0 to 1"),
        ("telemetry.request_share", "1.5", "from 0 to 1"),
        ("files.url", "s3://[", "s3://bucket/prefix"),
        ("events.allowed_hosts", "*.example.net, https://example.org", "a list of host names"),
        ("listen", "http://127.0.0.1:8400", "a host and port"),
        ("metrics.listen", "http://127.0.0.1:9400", "a host and port"),
    ],
)
def test_value_that_no_program_can_use_is_a_fault_of_its_setting(key: str, value: str, advice: str) -> None:
    environ = {"DAYBREAK_SOURCE__LOCATION": "x", f"DAYBREAK_{key.replace('.', '__').upper()}": value}
    with pytest.raises(SettingsFault) as caught:
        load_settings(None, environ)
    (fault,) = caught.value.faults
    assert fault.key == key
    assert advice in fault.detail


def test_text_that_is_no_url_is_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "daybreak.toml"
    file.write_text('operator_contact = "http://["\n', "utf-8")
    assert secret_in_file(file) is None
