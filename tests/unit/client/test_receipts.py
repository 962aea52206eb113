"""`daybreak receipts`: only receipts that the service signed for the account."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from daybreak_client.command import run
from tests.parts.delta_publisher import Publisher
from tests.parts.signed_publisher import SignedPublisher
from tests.parts.statement_signer import ACCOUNT, NOW, SERVICE

ERASURE_ID = "9a3c8f5e-3d4b-4c1a-8f0e-2b7d6a5c4e31"
OTHER_ERASURE_ID = "0b4d1c2e-5f6a-4b7c-8d9e-1a2b3c4d5e6f"
WRONG = 6


@pytest.fixture
def service(north: Publisher) -> SignedPublisher:
    return SignedPublisher(north)


def receipt(**changes: object) -> bytes:
    predicate = {
        "service": SERVICE, "client_id": ACCOUNT, "erasure_id": ERASURE_ID, "member_sha256": "0" * 64,
        "finished_at": NOW.isoformat(), "files": [{"rows_removed": 1}, {"rows_removed": 2}], **changes,
    }  # fmt: skip
    value = {
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "https://daybreak.example/erasure/v1",
        "predicate": predicate,
    }
    return json.dumps(value).encode()


def line(content: bytes, signature: bytes) -> bytes:
    return json.dumps({"statement": content.decode(), "signature": signature.decode()}).encode() + b"\n"


def test_receipts_are_listed_and_stored(
    service: SignedPublisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = receipt()
    service.receipts = line(content, service.signer.sign(content))
    assert run(["receipts", str(tmp_path / "receipts"), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["erasure_id"], shown["files"], shown["rows_removed"]) == (ERASURE_ID, 2, 3)
    assert (tmp_path / "receipts" / f"{ERASURE_ID}.json").read_bytes() == content
    service.receipts = b""
    assert run(["receipts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "00000000-0000-4000-8000-000000000001"},
        {"service": "other.example.org"},
        {"erasure_id": "../../escape"},
        {"finished_at": "2020-01-01T00:00:00Z"},
        {"files": [{"rows_removed": "1"}]},
    ],
)
def test_wrong_receipt_is_refused(service: SignedPublisher, tmp_path: Path, changes: dict[str, object]) -> None:
    content = receipt(**changes)
    service.receipts = line(content, service.signer.sign(content))
    assert run(["receipts", str(tmp_path / "receipts")]) == WRONG
    assert not (tmp_path / "receipts").exists()


def test_receipt_with_another_signature_is_refused(service: SignedPublisher) -> None:
    service.receipts = line(receipt(), service.signer.sign(receipt(member_sha256="1" * 64)))
    assert run(["receipts"]) == WRONG
    service.receipts = b"[]\n"
    assert run(["receipts"]) == WRONG


def test_receipt_of_a_replaced_ca_stops_no_other_one(
    service: SignedPublisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = receipt(), receipt(erasure_id=OTHER_ERASURE_ID)
    pinned = tmp_path / "trust"
    pinned.write_bytes(service.trust)
    service.receipts = line(old, service.signer.sign(old))
    assert run(["receipts"]) == 0
    service.signer.ca = ec.generate_private_key(ec.SECP256R1())
    service.trust = service.signer.trust(2)
    service.trust_signature = service.signer.sign_trust(service.trust)
    service.receipts += line(new, service.signer.sign(new))
    capsys.readouterr()
    assert run(["receipts", str(tmp_path / "receipts"), "--json"]) == WRONG
    assert [each["erasure_id"] for each in json.loads(capsys.readouterr().out)] == [OTHER_ERASURE_ID]
    assert (tmp_path / "receipts" / f"{OTHER_ERASURE_ID}.json").read_bytes() == new
    assert run(["receipts", str(tmp_path / "receipts"), "--trust", str(pinned)]) == 0
    assert (tmp_path / "receipts" / f"{ERASURE_ID}.json").read_bytes() == old
