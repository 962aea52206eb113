"""Signed links: every change except that of the format is rejected."""

import hashlib
import hmac
import re
import secrets
from datetime import UTC, datetime, timedelta
from random import Random
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from daybreak.credentials.keyring import Key, Keyring
from daybreak.credentials.signed_link import InvalidLink, LinkRequest, LinkTarget, sign, verify

NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
RING = Keyring(
    (
        Key("aa01", "signing", hashlib.sha256(b"first").digest(), NOW),
        Key("aa02", "next", hashlib.sha256(b"second").digest(), NOW),
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


def check(
    pairs: list[tuple[str, str]] = PAIRS, now: float = SECONDS, target: LinkTarget = TARGET
) -> LinkTarget | InvalidLink:
    request = LinkRequest(target.client_id, target.snapshot_id, f"{target.resource}.csv.gz", pairs)
    return verify(request, target.resource, keyring=RING, now_seconds=now)


@pytest.mark.parametrize("kind", ["session", "token"])
def test_link_is_valid_until_its_expiry(kind: str) -> None:
    target = replace(TARGET, subject=f"{kind}:2b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11")
    pairs = parse_qsl(sign(target, keyring=RING, random=secrets.token_bytes))
    assert check(pairs, target.expires - 0.001) == target
    assert check(pairs, target.expires) == InvalidLink("expired")


@pytest.mark.parametrize(
    ("subject", "query"),
    [
        (
            "session:2b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
            (
                "expires=1795148100&nonce=0001020304050607&subject=12b7d3c6e5a514d0c9a3e0f5d3f0c1a11&kid=aa01"
                "&signature=a1016968bcb071dac159e515cc5dbc1b21ff304bd511a474c50726594ed0447c"
            ),
        ),
        (
            "token:2b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
            (
                "expires=1795148100&nonce=0001020304050607&subject=22b7d3c6e5a514d0c9a3e0f5d3f0c1a11&kid=aa01"
                "&signature=b91a950ddff4f3ece6a0c50ec634d2eeb6bf8f68e72142b2fa1c94c217487ce3"
            ),
        ),
    ],
)
def test_links_of_an_earlier_version_are_accepted(subject: str, query: str) -> None:
    """The links were issued at commit aa7e92d."""
    assert check(parse_qsl(query)) == replace(TARGET, subject=subject)


def test_link_contains_only_digits_and_differs_each_time() -> None:
    assert sign(TARGET, keyring=RING, random=secrets.token_bytes) != QUERY
    assert re.fullmatch(
        r"expires=\d+&nonce=[0-9a-f]+&subject=[0-9a-f]+&kid=[0-9a-f]+&signature=[0-9a-f]{64}",
        QUERY,
    )
    assert "csv" not in QUERY


def test_link_is_valid_after_a_rotation() -> None:
    rotated = RING.rotate(NOW, secrets.token_bytes, lifetime=timedelta(days=7))
    newer = parse_qsl(sign(TARGET, keyring=rotated, random=secrets.token_bytes))
    assert check(newer) == TARGET
    unknown = [(name, "aa99" if name == "kid" else value) for name, value in PAIRS]
    assert check(unknown) == InvalidLink("unknown_key")


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
def test_other_account_snapshot_or_resource_is_rejected(other: LinkTarget) -> None:
    assert check(target=other) == InvalidLink("signature")


def test_other_key_of_the_keyring_is_rejected() -> None:
    assert check([(n, "aa02" if n == "kid" else v) for n, v in PAIRS]) == InvalidLink("signature")


def test_signature_is_checked_before_the_expiry() -> None:
    pairs = [(name, str(SECONDS - 5) if name == "expires" else value) for name, value in PAIRS]
    assert check(pairs) == InvalidLink("signature")


def test_kind_of_the_credential_is_signed() -> None:
    pairs = [(name, "2" + value[1:] if name == "subject" else value) for name, value in PAIRS]
    assert check(pairs) == InvalidLink("signature")


@pytest.mark.parametrize("name", [name for name, _ in PAIRS])
def test_missing_repeated_or_extra_parameter_is_rejected(name: str) -> None:
    without = [pair for pair in PAIRS if pair[0] != name]
    assert check(without) == InvalidLink("malformed")
    assert check([*PAIRS, (name, dict(PAIRS)[name])]) == InvalidLink("malformed")
    assert check([*PAIRS, (name + "2", "1")]) == InvalidLink("malformed")
    assert check([*without, (name.upper(), dict(PAIRS)[name])]) == InvalidLink("malformed")
    assert isinstance(check([*without, (name, "")]), InvalidLink)


@given(
    at=st.integers(0, len(PAIRS) - 1),
    place=st.integers(0, 80),
    character=st.characters(),
    operation=st.sampled_from(["replace", "insert", "delete"]),
)
def test_any_changed_parameter_is_rejected(at: int, place: int, character: str, operation: str) -> None:
    name, value = PAIRS[at]
    place %= len(value)
    changed = {
        "replace": value[:place] + character + value[place + 1 :],
        "insert": value[:place] + character + value[place:],
        "delete": value[:place] + value[place + 1 :],
    }[operation]
    if changed != value:
        pairs = [*PAIRS[:at], (name, changed), *PAIRS[at + 1 :]]
        assert isinstance(check(pairs), InvalidLink)


@given(
    st.lists(st.tuples(st.sampled_from([n for n, _ in PAIRS]) | st.text(), st.text()), max_size=7),
    st.text(),
    st.text(),
)
def test_no_input_raises(pairs: list[tuple[str, str]], client_id: str, resource: str) -> None:
    target = replace(TARGET, client_id=client_id, resource=resource)
    assert isinstance(check(pairs, target=target), InvalidLink)
    assert isinstance(check(target=target), InvalidLink)


@pytest.mark.parametrize("name", ["client_id", "snapshot_id"])
@pytest.mark.parametrize(
    "malformed", [TARGET.client_id.upper(), TARGET.client_id.replace("-", ""), "a" * 500, "\udcff", ""]
)
def test_malformed_id_is_rejected(name: str, malformed: str) -> None:
    assert check(target=replace(TARGET, **{name: malformed})) == InvalidLink("malformed")


def test_value_with_a_separator_is_rejected() -> None:
    values = dict(PAIRS)
    values["expires"], values["nonce"] = f"{values['expires']}&{values['nonce']}", ""
    assert check(list(values.items())) == InvalidLink("malformed")
    values["nonce"], values["expires"] = values["expires"], ""
    assert check(list(values.items())) == InvalidLink("malformed")


def test_signature_is_hmac_of_length_prefixed_fields() -> None:
    sent = dict(PAIRS)
    key = RING.derive(sent["kid"], "signed-link")
    assert key is not None
    names = ("expires", "nonce", "subject", "kid")
    fields = ["1", TARGET.client_id, TARGET.snapshot_id, TARGET.resource, *(sent[name] for name in names)]
    message = b"".join(len(field).to_bytes(4, "big") + field.encode() for field in fields)
    assert sent["signature"] == hmac.digest(key, message, "sha256").hex()


IDS = st.uuids().map(str)
TARGETS = st.builds(
    LinkTarget,
    client_id=IDS,
    snapshot_id=IDS,
    resource=st.sampled_from(["campaigns", "members", "communities"])
    | st.text(st.characters(codec="utf-8"), max_size=12),
    subject=st.tuples(st.sampled_from(["session", "token"]), IDS).map(":".join),
    expires=st.integers(10**8, 10**12 - 1),
)


@given(TARGETS, st.integers(0, 10**12), st.binary(min_size=8, max_size=8), st.randoms())
def test_any_link_round_trips_until_it_expires(target: LinkTarget, now: int, nonce: bytes, order: Random) -> None:
    pairs = parse_qsl(sign(target, keyring=RING, random=lambda _: nonce))
    order.shuffle(pairs)
    assert check(pairs, now, target) == (target if now < target.expires else InvalidLink("expired"))


@given(TARGETS, TARGETS, st.sampled_from(["client_id", "snapshot_id", "resource"]))
def test_link_of_one_target_does_not_open_another(target: LinkTarget, other: LinkTarget, name: str) -> None:
    pairs = parse_qsl(sign(target, keyring=RING, random=secrets.token_bytes))
    changed = replace(target, **{name: getattr(other, name)})
    if changed != target:
        assert check(pairs, 0, changed) == InvalidLink("signature")


@given(st.integers(0, len(QUERY)), st.characters() | st.sampled_from([*"&=%+;0", ""]), st.integers(0, 1))
def test_any_edited_query_is_rejected(at: int, piece: str, removed: int) -> None:
    edited = QUERY[:at] + piece + QUERY[at + removed :]
    pairs = [(name, value) for name, _, value in (field.partition("=") for field in edited.split("&"))]
    if edited != QUERY:
        assert isinstance(check(pairs), InvalidLink)
