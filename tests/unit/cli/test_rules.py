"""`daybreakd rules`: the printed section is read back as the approved rules."""

from pathlib import Path

import pytest

from daybreak.cli.main import run
from daybreak.settings import load_settings

SELECT = (
    'SELECT m.member_id AS "MEMBER_ID", lower(m.email) AS "EMAIL" FROM members AS m WHERE m.email LIKE \'%"a\\\\%\''
)


def test_printed_rules_can_be_pasted_into_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "service")]) == 0
    config = tmp_path / "service" / "daybreak.toml"
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "members.sql").write_text(SELECT, "utf-8")
    text = config.read_text("utf-8").replace("# models_dir = ...", f'models_dir = "{tmp_path / "models"}"')
    config.write_text(text, "utf-8")
    capsys.readouterr()
    assert run(["rules", "--config", str(config)]) == 0
    printed = capsys.readouterr().out
    config.write_text(f"{text}\n{printed}", "utf-8")
    approved = load_settings(config, {}).guard.approved_rules["members"]
    assert [rule.partition(" ")[0] for rule in approved] == ["WHERE", "EMAIL:"]
    assert '%"a' in approved[0]


def test_without_own_models_the_error_names_the_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "service")]) == 0
    assert run(["rules", "--config", str(tmp_path / "service" / "daybreak.toml")]) == 1
    assert "snapshot.models_dir is not set" in capsys.readouterr().err
