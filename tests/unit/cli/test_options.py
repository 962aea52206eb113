"""Options shared by several commands."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from daybreak.cli.options import parse_expiry, parse_instant, parse_instant_or_age, parse_member_id, settings_of
from daybreak.domain.errors import OperatorError
from tests.parts.terminal import run_on_terminal

NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)


def test_instant_without_offset_is_utc() -> None:
    assert parse_instant("2026-11-20T04:00:00", "--until") == NOW
    assert parse_instant("2026-11-20T06:00:00+02:00", "--until") == NOW


def test_ages_and_expiries_count_from_now() -> None:
    assert parse_instant_or_age("2h", "--since", NOW) == datetime(2026, 11, 20, 2, tzinfo=UTC)
    assert parse_instant_or_age("2026-11-20T04:00:00Z", "--since", datetime.now(UTC)) == NOW
    assert parse_expiry("1d", "--expires", NOW) == datetime(2026, 11, 21, 4, tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "0001-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00"])
def test_invalid_instant_is_wrong_use(text: str) -> None:
    with pytest.raises(OperatorError, match="--until: Use an instant") as refused:
        parse_instant(text, "--until")
    assert refused.value.code == "wrong_use"


@pytest.mark.parametrize("text", ["999999w", "9999999999w", "a while"])
def test_duration_beyond_the_calendar_is_wrong_use(text: str) -> None:
    with pytest.raises(OperatorError, match=r"--since: Use an instant .* or an age") as refused:
        parse_instant_or_age(text, "--since", NOW)
    assert refused.value.code == "wrong_use"
    with pytest.raises(OperatorError, match="--expires: ") as refused:
        parse_expiry(text, "--expires", NOW)
    assert refused.value.code == "wrong_use"


def test_member_id_may_be_an_integer_key() -> None:
    namespace = UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
    member_id = "bcfbc47a-119b-5cf4-8fb6-1511186a1678"
    assert parse_member_id(" 123", namespace) == member_id
    assert parse_member_id(member_id.upper(), namespace) == member_id
    for text, known in (("123", None), ("0123", namespace), ("1.0", namespace), ("+49 30 123", namespace)):
        with pytest.raises(OperatorError, match="Use the MEMBER_ID of the Member"):
            parse_member_id(text, known)


def test_root_is_refused_if_the_service_runs_as_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service could not read the files of a run of root, and every later run would fail."""
    config, keyring = tmp_path / "daybreak.toml", tmp_path / "keyring.json"
    config.write_text('[source]\nlocation = "platform"\n')
    keyring.touch()
    assert settings_of(config).file == config
    if os.geteuid() == 0:
        os.chown(keyring, 65534, 65534)
    monkeypatch.setattr("daybreak.cli.options.os.geteuid", lambda: 0)
    with pytest.raises(OperatorError, match=rf"owns {keyring}, .* `sudo -Hu \w+ daybreakd \.\.\.`") as refused:
        settings_of(config)
    assert refused.value.code == "wrong_use"
    monkeypatch.setattr("daybreak.cli.options.user_name", str)
    with pytest.raises(OperatorError, match=r"`sudo -Hu '#\d+' daybreakd \.\.\.`"):
        settings_of(config)
    keyring.unlink()
    assert settings_of(config).file == config


@pytest.mark.parametrize(
    ("typed", "message"),
    [(b"\x04", "The input ended at a prompt. Nothing was changed."), (b"na\xefve\n", "Standard input is not UTF-8.")],
)
def test_unusable_answer_to_a_prompt_is_an_error(typed: bytes, message: str) -> None:
    program = (
        "import sys; sys.stdin.reconfigure(encoding='utf-8'); "
        "from daybreak.cli.options import read_secret; read_secret('New password: ')"
    )
    code, printed = run_on_terminal([sys.executable, "-c", program], [("New password: ", typed)])
    assert code == 1
    assert f"WrongUse: {message}" in printed
