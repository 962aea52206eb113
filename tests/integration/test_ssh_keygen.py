"""Signatures of statements, verified by `ssh-keygen`: what consumers without our client run."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from daybreak.credentials.signing_folder import create_keys, load_ca, load_recovery, recovery_public
from daybreak.credentials.ssh_signature import CertificateAuthority, SigningKey
from daybreak.domain.signing import TRUST_NAMESPACE, Trust, account_namespace
from tests.parts.presence import absent

SERVICE = "export.example.org"
ACCOUNT = "7d909222-adf5-4547-93e0-e8f60c50f980"
OTHER_ACCOUNT = "c6b3a8a2-3a45-4b5e-9d35-0f3a1c5b7e11"
NOW = datetime.now(UTC)
STATEMENT = b'{"subject":[{"name":"members.csv.gz"}]}'


@dataclass(frozen=True)
class Consumer:
    """A folder with a trust file, in which `ssh-keygen` verifies."""

    folder: Path
    service: str = SERVICE
    namespace: str = account_namespace(ACCOUNT)
    options: tuple[str, ...] = ()

    def accepts(self, content: bytes, signature: bytes) -> bool:
        (self.folder / "statement.json.sig").write_bytes(signature)
        command = [
            "ssh-keygen", "-Y", "verify", "-f", "allowed_signers", "-I", self.service, "-n", self.namespace,
            "-s", "statement.json.sig", *self.options,
        ]  # fmt: skip
        return subprocess.run(command, cwd=self.folder, input=content, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Keys:
    """The keys of a service."""

    ca: CertificateAuthority
    recovery: SigningKey
    trust: Trust

    def certify(self, hours: float = 30, service: str = SERVICE) -> SigningKey:
        valid_before = NOW + timedelta(hours=hours)
        return self.ca.certify(service, 48, min(NOW, valid_before) - timedelta(hours=1), valid_before)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    if shutil.which("ssh-keygen") is None:
        absent("ssh-keygen", "apt-get install openssh-client")
    create_keys(tmp_path / "signing")
    ca = load_ca(tmp_path / "signing")
    assert ca is not None
    trust = Trust(SERVICE, 1, (ca.public,), recovery_public(tmp_path / "signing"))
    return Keys(ca, load_recovery(tmp_path / "signing" / "recovery"), trust)


@pytest.fixture
def consumer(tmp_path: Path, keys: Keys) -> Consumer:
    (tmp_path / "allowed_signers").write_text(keys.trust.text())
    return Consumer(tmp_path)


def test_signature_of_a_statement_is_accepted(keys: Keys, consumer: Consumer) -> None:
    assert consumer.accepts(STATEMENT, keys.certify().sign(STATEMENT, account_namespace(ACCOUNT)))


@pytest.mark.parametrize(
    ("attack", "seen_by"),
    [
        (lambda content: bytes([content[0] ^ 1]) + content[1:], lambda one: one),
        (lambda content: content.replace(b"members", b"another"), lambda one: one),
        (lambda content: content, lambda one: replace(one, namespace=account_namespace(OTHER_ACCOUNT))),
        (lambda content: content, lambda one: replace(one, service="other.example.org")),
        (lambda content: content, lambda one: replace(one, namespace=TRUST_NAMESPACE)),
        (lambda content: content, lambda one: replace(one, service=f"trust@{SERVICE}")),
    ],
    ids=["flipped bit", "edited", "other account", "other service", "as a trust file", "as the recovery key"],
)
def test_ssh_keygen_refuses_attacks(
    keys: Keys, consumer: Consumer, attack: Callable[[bytes], bytes], seen_by: Callable[[Consumer], Consumer]
) -> None:
    signature = keys.certify().sign(STATEMENT, account_namespace(ACCOUNT))
    assert not seen_by(consumer).accepts(attack(STATEMENT), signature)


def test_ssh_keygen_refuses_an_expired_certificate(keys: Keys, consumer: Consumer) -> None:
    signature = keys.certify(hours=-2).sign(STATEMENT, account_namespace(ACCOUNT))
    assert not consumer.accepts(STATEMENT, signature)
    then = f"{NOW - timedelta(hours=2, minutes=30):%Y%m%d%H%M%SZ}"
    assert replace(consumer, options=(f"-Overify-time={then}",)).accepts(STATEMENT, signature)


def test_ssh_keygen_refuses_a_ca_of_a_stranger(keys: Keys, consumer: Consumer) -> None:
    stranger = replace(keys, ca=CertificateAuthority(generate_private_key(SECP256R1())))
    assert not consumer.accepts(STATEMENT, stranger.certify().sign(STATEMENT, account_namespace(ACCOUNT)))


def test_ssh_keygen_refuses_a_certificate_of_another_service(keys: Keys, consumer: Consumer) -> None:
    other = keys.certify(service="other.example.org")
    assert not consumer.accepts(STATEMENT, other.sign(STATEMENT, account_namespace(ACCOUNT)))


def test_ssh_keygen_refuses_a_key_without_certificate(keys: Keys, consumer: Consumer) -> None:
    assert not consumer.accepts(STATEMENT, keys.recovery.sign(STATEMENT, account_namespace(ACCOUNT)))


@pytest.mark.parametrize("revoked", ["key", "ca"])
def test_ssh_keygen_refuses_a_revoked_key(keys: Keys, consumer: Consumer, revoked: str) -> None:
    key, other = keys.certify(), keys.certify()
    (consumer.folder / "revoked").write_text(f"{key.public if revoked == 'key' else keys.trust.cas[0]}\n")
    careful = replace(consumer, options=("-r", "revoked"))
    assert not careful.accepts(STATEMENT, key.sign(STATEMENT, account_namespace(ACCOUNT)))
    assert careful.accepts(STATEMENT, other.sign(STATEMENT, account_namespace(ACCOUNT))) is (revoked == "key")


def test_empty_list_of_revoked_keys_revokes_nothing(keys: Keys, consumer: Consumer) -> None:
    (consumer.folder / "revoked").write_text("")
    careful = replace(consumer, options=("-r", "revoked"))
    assert careful.accepts(STATEMENT, keys.certify().sign(STATEMENT, account_namespace(ACCOUNT)))


def test_recovery_key_signs_trust_files(keys: Keys, consumer: Consumer) -> None:
    later = replace_version(keys.trust)
    reader = replace(consumer, service=f"trust@{SERVICE}", namespace=TRUST_NAMESPACE)
    assert reader.accepts(later, keys.recovery.sign(later, TRUST_NAMESPACE))
    assert not reader.accepts(later, keys.certify().sign(later, TRUST_NAMESPACE))


def replace_version(trust: Trust) -> bytes:
    return Trust(trust.service, trust.version + 1, trust.cas, trust.recovery).text().encode()


def test_both_cas_of_a_rotation_are_accepted(keys: Keys, consumer: Consumer) -> None:
    new = CertificateAuthority(generate_private_key(SECP256R1()))
    trust = Trust(SERVICE, 2, (new.public, *keys.trust.cas), keys.trust.recovery)
    (consumer.folder / "allowed_signers").write_text(trust.text())
    for ca in (new, keys.ca):
        signature = replace(keys, ca=ca).certify().sign(STATEMENT, account_namespace(ACCOUNT))
        assert consumer.accepts(STATEMENT, signature)
