"""Files of the keys that sign."""

import stat
from pathlib import Path

import pytest

from daybreak.credentials.signing_folder import (
    activate_next_ca,
    create_keys,
    create_next_ca,
    load_ca,
    load_recovery,
    recovery_public,
)
from daybreak.domain.errors import OperatorError


def test_private_keys_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    create_keys(tmp_path / "signing")
    for name in ("ca", "recovery"):
        assert stat.S_IMODE((tmp_path / "signing" / name).stat().st_mode) == 0o600


def test_keys_are_kept(tmp_path: Path) -> None:
    create_keys(tmp_path)
    before = (tmp_path / "ca").read_bytes()
    (tmp_path / "recovery").unlink()
    create_keys(tmp_path)
    assert (tmp_path / "ca").read_bytes() == before
    assert not (tmp_path / "recovery").exists()


def test_replaced_ca_is_another_key(tmp_path: Path) -> None:
    create_keys(tmp_path)
    before = load_ca(tmp_path)
    public = create_next_ca(tmp_path)
    activate_next_ca(tmp_path)
    after = load_ca(tmp_path)
    assert before is not None
    assert after is not None
    assert before.public != after.public == public


def test_recovery_key_belongs_to_its_public_key(tmp_path: Path) -> None:
    create_keys(tmp_path)
    assert load_recovery(tmp_path / "recovery").public == recovery_public(tmp_path)


def test_ca_that_others_can_read_is_refused(tmp_path: Path) -> None:
    create_keys(tmp_path)
    (tmp_path / "ca").chmod(0o640)
    with pytest.raises(OperatorError, match="chmod 600"):
        load_ca(tmp_path)


@pytest.mark.parametrize("content", ["", "nonsense"])
def test_damaged_key_is_named(tmp_path: Path, content: str) -> None:
    create_keys(tmp_path)
    (tmp_path / "ca").write_text(content)
    with pytest.raises(OperatorError, match="not a private key"):
        load_ca(tmp_path)


def test_key_of_another_type_is_refused(tmp_path: Path) -> None:
    create_keys(tmp_path)
    (tmp_path / "ca").write_bytes((tmp_path / "recovery").read_bytes())
    with pytest.raises(OperatorError, match="P-256"):
        load_ca(tmp_path)


def test_without_a_folder_nothing_signs(tmp_path: Path) -> None:
    assert load_ca(tmp_path / "missing") is None


def test_folder_that_cannot_be_searched_is_not_one_without_a_ca(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"^signing\.folder: .* cannot be read: File name too long\.$"):
        load_ca(tmp_path / ("x" * 300))
