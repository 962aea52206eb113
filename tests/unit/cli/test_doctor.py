"""The report of `daybreakd doctor`, with checks that fail."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from daybreak.cli import doctor
from daybreak.cli.doctor_deep import check_telemetry
from daybreak.cli.main import run
from daybreak.domain.errors import OperatorError
from tests.configured import configured
from tests.parts.webhook_receiver import Receiver


def failing(text: str) -> Callable[[object], str]:
    def check(_settings: object) -> str:
        raise OperatorError(text)

    return check


def test_invalid_configuration_is_a_check_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "daybreak.toml").write_text('workers = "many"\n')
    assert run(["doctor", "--json", "--config", str(tmp_path / "daybreak.toml")]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "check": "configuration",
        "ok": False,
        "detail": printed.err[len("daybreakd: ") : -1],
    }
    assert 'workers: "many" is invalid' in printed.err


def test_unavailable_component_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = (
        ("file store", failing("The object a cannot be written: no bucket.")),
        ("source", failing("no database")),
        ("directory", failing("directory.accounts: no database")),
        ("own models", failing("no database")),
        ("mail", failing("no server")),
        ("freshness", failing("The object b cannot be read: no bucket.")),
    )
    monkeypatch.setattr(doctor, "_CHECKS", checks)
    monkeypatch.setattr(doctor, "settings_of", lambda _config: None)
    assert doctor.doctor() == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAULT file store: The object a cannot be written: no bucket.",
        "FAULT source: no database",
        "FAULT directory: not checked, see source",
        "FAULT own models: not checked, see source",
        "FAULT mail: no server",
        "FAULT freshness: not checked, see file store",
    ]


def test_collector_that_does_not_answer_is_a_fault() -> None:
    with Receiver().running() as collector:
        url = collector.url("").rstrip("/")
        assert check_telemetry(configured(telemetry={"url": url})) == url
    with pytest.raises(OperatorError, match=r"telemetry\.url: .* does not answer"):
        check_telemetry(configured(telemetry={"url": url}))
    assert check_telemetry(configured()) == "off"
