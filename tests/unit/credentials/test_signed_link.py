"""Signed links: every change but that of the format is refused."""

import hmac
import re
import secrets
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from daybreak.credentials.keyring import Key, Keyring
from daybreak.credentials.signed_link import LinkTarget, Refused, sign, verify

NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
RING = Keyring(
    (
        Key("aa01", "signing", secrets.token_bytes(32), NOW),
        Key("aa02", "next", secrets.token_bytes(32), NOW),
    )
)
TARGET = LinkTarget(
    client_id="0b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
    snapshot_id="1b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
    resource="campaigns",
    subject="session:2b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
    expires=SECONDS + 900,
)
QUERY = sign(TARGET, keyring=RING, random=secrets.token_bytes)
PAIRS = parse_qsl(QUERY)


def judge(
    pairs: list[tuple[str, str]] = PAIRS, now: float = SECONDS, target: LinkTarget = TARGET
) -> LinkTarget | Refused:
    return verify(
        client_id=target.client_id,
        snapshot_id=target.snapshot_id,
        resource=target.resource,
        parameters=pairs,
        keyring=RING,
        now_seconds=now,
    )


@pytest.mark.parametrize("kind", ["session", "token"])
def test_a_link_is_good_until_its_expiry(kind: str) -> None:
    target = replace(TARGET, subject=f"{kind}:2b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11")
    pairs = parse_qsl(sign(target, keyring=RING, random=secrets.token_bytes))
    assert judge(pairs, target.expires - 0.001) == target
    assert judge(pairs, target.expires) == Refused("expired")


def test_each_link_is_another_and_holds_nothing_but_hex_and_digits() -> None:
    assert sign(TARGET, keyring=RING, random=secrets.token_bytes) != QUERY
    assert re.fullmatch(
        r"expires=\d+&nonce=[0-9a-f]+&subject=[0-9a-f]+&kid=[0-9a-f]+&signature=[0-9a-f]{64}",
        QUERY,
    )
    assert "csv" not in QUERY


def test_links_outlive_a_rotation_and_end_with_their_key() -> None:
    rotated = RING.rotate(NOW, secrets.token_bytes, lifetime=timedelta(days=7))
    newer = parse_qsl(sign(TARGET, keyring=rotated, random=secrets.token_bytes))
    assert judge(newer) == TARGET
    unknown = [(name, "aa99" if name == "kid" else value) for name, value in PAIRS]
    assert judge(unknown) == Refused("unknown_key")


@pytest.mark.parametrize(
    "other",
    [
        replace(TARGET, client_id="9b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11"),
        replace(TARGET, snapshot_id="9b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11"),
        replace(TARGET, resource="members"),
        replace(TARGET, resource="campaign"),
        replace(TARGET, client_id=TARGET.snapshot_id, snapshot_id=TARGET.client_id),
    ],
)
def test_another_account_snapshot_or_resource_is_refused(other: LinkTarget) -> None:
    assert judge(target=other) == Refused("signature")


@pytest.mark.parametrize("kid", ["aa02"])
def test_another_key_of_the_ring_is_refused(kid: str) -> None:
    assert judge([(n, kid if n == "kid" else v) for n, v in PAIRS]) == Refused("signature")


def test_the_signature_is_judged_before_the_expiry() -> None:
    pairs = [(name, str(SECONDS - 5) if name == "expires" else value) for name, value in PAIRS]
    assert judge(pairs) == Refused("signature")


def test_the_kind_of_the_credential_is_signed() -> None:
    pairs = [(name, "2" + value[1:] if name == "subject" else value) for name, value in PAIRS]
    assert judge(pairs) == Refused("signature")


@pytest.mark.parametrize("name", [name for name, _ in PAIRS])
def test_a_missing_repeated_or_extra_parameter_is_refused(name: str) -> None:
    without = [pair for pair in PAIRS if pair[0] != name]
    assert judge(without) == Refused("malformed")
    assert judge([*PAIRS, (name, dict(PAIRS)[name])]) == Refused("malformed")
    assert judge([*PAIRS, (name + "2", "1")]) == Refused("malformed")
    assert judge([*without, (name.upper(), dict(PAIRS)[name])]) == Refused("malformed")
    assert isinstance(judge([*without, (name, "")]), Refused)


@given(
    at=st.integers(0, len(PAIRS) - 1),
    place=st.integers(0, 80),
    letter=st.characters(),
    how=st.sampled_from(["replace", "insert", "delete"]),
)
def test_any_change_of_any_parameter_is_refused(at: int, place: int, letter: str, how: str) -> None:
    name, value = PAIRS[at]
    place %= len(value)
    changed = {
        "replace": value[:place] + letter + value[place + 1 :],
        "insert": value[:place] + letter + value[place:],
        "delete": value[:place] + value[place + 1 :],
    }[how]
    if changed != value:
        pairs = [*PAIRS[:at], (name, changed), *PAIRS[at + 1 :]]
        assert isinstance(judge(pairs), Refused)


@given(
    st.lists(st.tuples(st.sampled_from([n for n, _ in PAIRS]) | st.text(), st.text()), max_size=7),
    st.text(),
    st.text(),
)
def test_nothing_makes_it_raise(pairs: list[tuple[str, str]], client_id: str, resource: str) -> None:
    target = replace(TARGET, client_id=client_id, resource=resource)
    assert isinstance(judge(pairs, target=target), Refused)
    assert isinstance(judge(target=target), Refused)


@pytest.mark.parametrize("name", ["client_id", "snapshot_id"])
@pytest.mark.parametrize("odd", [TARGET.client_id.upper(), TARGET.client_id.replace("-", ""), "a" * 500, "\udcff", ""])
def test_what_is_no_id_is_in_no_link(name: str, odd: str) -> None:
    assert judge(target=replace(TARGET, **{name: odd})) == Refused("malformed")


def test_no_value_reaches_into_its_neighbour() -> None:
    values = dict(PAIRS)
    values["expires"], values["nonce"] = f"{values['expires']}&{values['nonce']}", ""
    assert judge(list(values.items())) == Refused("malformed")
    values["nonce"], values["expires"] = values["expires"], ""
    assert judge(list(values.items())) == Refused("malformed")


def test_the_signature_is_the_standard_hmac_of_the_fields() -> None:
    sent = dict(PAIRS)
    key = RING.derive(sent["kid"], "signed-link")
    assert key is not None
    names = ("expires", "nonce", "subject", "kid")
    fields = ["1", TARGET.client_id, TARGET.snapshot_id, TARGET.resource, *(sent[name] for name in names)]
    message = b"".join(len(field).to_bytes(4, "big") + field.encode() for field in fields)
    assert sent["signature"] == hmac.digest(key, message, "sha256").hex()
