"""A service that signs: trust files, certificates and statements, for tests of the client."""

import base64
import gzip
import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.hazmat.primitives.serialization.ssh import SSHCertificate, SSHCertificateBuilder, SSHCertificateType

SERVICE = "export.example.org"
ACCOUNT = "7d909222-adf5-4547-93e0-e8f60c50f980"
OTHER_ACCOUNT = "c6b3a8a2-3a45-4b5e-9d35-0f3a1c5b7e11"
CHAIN = "d0000000-0000-4000-8000-000000000004"
NOW = datetime.now(UTC).replace(microsecond=0)


def sshsig(key: Ed25519PrivateKey, public: bytes, message: bytes, namespace: str) -> bytes:
    """Return the armored signature of a message. `public` is the key or certificate that it names."""
    digest = hashlib.sha512(message).digest()
    signed = b"SSHSIG" + b"".join(map(_string, (namespace.encode(), b"", b"sha512", digest)))
    value = _string(b"ssh-ed25519") + _string(key.sign(signed))
    blob = (
        b"SSHSIG" + struct.pack(">I", 1) + b"".join(map(_string, (public, namespace.encode(), b"", b"sha512", value)))
    )
    lines = base64.encodebytes(blob).decode()
    return f"-----BEGIN SSH SIGNATURE-----\n{lines}-----END SSH SIGNATURE-----\n".encode()


def public_blob(public: Any) -> bytes:
    """Return the encoding of a public key or certificate."""
    text = public.public_bytes() if isinstance(public, SSHCertificate) else _openssh(public)
    return base64.b64decode(text.split()[1])


def _openssh(public: Any) -> bytes:
    found: bytes = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return found


def _string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


@dataclass
class Signer:
    """The keys of a service. Its publications have one key each, which `ca` certifies."""

    service: str = SERVICE
    ca: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    recovery: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def trust(self, version: int = 1, *cas: ec.EllipticCurvePrivateKey) -> bytes:
        """Return a trust file with these CAs."""
        lines = [f"# daybreak trust {version} {self.service}"]
        for ca in cas or (self.ca,):
            public = _openssh(ca.public_key()).decode()
            lines.append(f'{self.service} cert-authority,namespaces="daybreak/*" {public}')
        lines.append(
            f'trust@{self.service} namespaces="daybreak-trust" {_openssh(self.recovery.public_key()).decode()}'
        )
        return "\n".join([*lines, ""]).encode()

    def sign_trust(self, trust: bytes) -> bytes:
        """Sign a trust file with the recovery key."""
        return sshsig(self.recovery, public_blob(self.recovery.public_key()), trust, "daybreak-trust")

    def certificate(
        self,
        valid_after: datetime = NOW - timedelta(hours=1),
        valid_before: datetime = NOW + timedelta(hours=30),
        principals: tuple[str, ...] = (),
        options: Mapping[bytes, bytes] | None = None,
        kind: SSHCertificateType = SSHCertificateType.USER,
    ) -> SSHCertificate:
        """Certify the key of a publication."""
        builder = (
            SSHCertificateBuilder()
            .public_key(self.key.public_key())
            .serial(1)
            .type(kind)
            .key_id(b"publication")
            .valid_principals([each.encode() for each in principals or (self.service,)])
            .valid_after(int(valid_after.timestamp()))
            .valid_before(int(valid_before.timestamp()))
        )
        for name, value in (options or {}).items():
            builder = builder.add_critical_option(name, value)
        return builder.sign(self.ca)

    def sign(self, statement: bytes, certificate: SSHCertificate | None = None, client_id: str = ACCOUNT) -> bytes:
        """Sign a statement for an account."""
        public = public_blob(certificate or self.certificate())
        return sshsig(self.key, public, statement, f"daybreak/{client_id}")

    def revoked(self) -> bytes:
        """Return a list of revoked keys with that of the publication."""
        return _openssh(self.key.public_key()) + b"\n"


CONTENTS: Mapping[str, bytes] = {
    "campaigns": b'CAMPAIGN_ID,LEADER_ID,SEGMENT_COUNT,UNIT_COUNT,RESPONSE_COUNT\n"a","x",2,3,1\n"b","x",1,1,4\n',
    "outbound_message_type_usage": b'LEADER_ID,MESSAGE_COUNT,SEGMENT_COUNT,UNIT_COUNT\n"x",7,8,9\n',
    "campaign_links": b'LEADER_ID,LINK_URL,HIT_COUNT\n"x","https://a.example/?b=""c"",d\nnext",6\n',
    "members": b'LEADER_ID,MEMBER_ID\n"x","m1"\n"x","m2"\n"x","m3"\n',
    "member_state_changes": b'LEADER_ID,MEMBER_ID\n"x","m1"\n',
    "member_term_accepts": b"LEADER_ID,MEMBER_ID\n",
    "custom_member_data": b'LEADER_ID,CUSTOM_FIELD_VALUE\n"x","a\nb"\n',
    "communities": b'LEADER_ID,COMMUNITY_ID\n"x","c"\n',
    "member_communities": b'LEADER_ID,COMMUNITY_ID\n"x","c"\n',
}
ROWS = dict(zip(CONTENTS, (2, 1, 1, 3, 1, 0, 1, 1, 1), strict=True))
"""CSV content of the nine files, and their rows."""


def csv_files(contents: Mapping[str, bytes] = CONTENTS) -> dict[str, bytes]:
    """Return the files by name."""
    return {f"{resource}.csv.gz": gzip.compress(content, mtime=0) for resource, content in contents.items()}


def statement(
    files: Mapping[str, bytes], version: int = 48, revision: int = 1, rows: Mapping[str, int] = ROWS, **changes: Any
) -> bytes:
    """Return the statement of these files. `changes` replace values of the predicate."""

    def facts(name: str, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(gzip.decompress(content)).hexdigest()
        return {"bytes": len(content), "rows": rows[name.partition(".")[0]], "content_sha256": digest}

    predicate = {
        "service": SERVICE, "client_id": ACCOUNT, "version": version, "revision": revision, "chain_id": CHAIN,
        "as_of": (NOW - timedelta(hours=2)).isoformat(), "signed_at": (NOW - timedelta(minutes=30)).isoformat(),
        "expires_at": (NOW + timedelta(hours=30)).isoformat(), "previous": None,
        "files": {name: facts(name, content) for name, content in files.items()},
        "deltas": {}, "completeness": completeness(), **changes,
    }  # fmt: skip
    value = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}} for name, content in files.items()
        ],
        "predicateType": "https://daybreak.example/publication/v1",
        "predicate": predicate,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def completeness() -> dict[str, Any]:
    """Return row accounting that agrees with `CONTENTS`."""
    return {
        "status": "proved",
        "members": {"members": {"source": 3, "exported": 3, "excluded": {}}},
        "campaigns": {
            "campaigns": {"source": 3, "exported": 2, "excluded": {"after_as_of": 1}},
            "inbound_messages": {"source": 9, "exported": 5, "excluded": {"no_campaign": 4}},
            "outbound_messages": {
                "source": 9, "exported": 3, "excluded": {"no_campaign": 6},
                "sums": {"SEGMENT_COUNT": 3, "UNIT_COUNT": 4},
            },
        },
        "outbound_message_type_usage": {"outbound_messages": {"source": 7, "exported": 7, "excluded": {}}},
        "campaign_links": {
            "campaign_links": {"source": 1, "exported": 1, "excluded": {}},
            "link_hits": {"source": 6, "exported": 6, "excluded": {}},
        },
        **{
            resource: {table: {"source": ROWS[resource], "exported": ROWS[resource], "excluded": {}}}
            for resource, table in (
                ("member_state_changes", "member_state_changes"),
                ("member_term_accepts", "member_term_accepts"),
                ("custom_member_data", "custom_field_values"),
                ("communities", "communities"),
                ("member_communities", "community_memberships"),
            )
        },
    }  # fmt: skip


def write_folder(folder: Path, files: Mapping[str, bytes], content: bytes, signature: bytes) -> None:
    """Write files with their statement and signature to a folder."""
    folder.mkdir(exist_ok=True)
    for name, octets in {**files, "statement.json": content, "statement.json.sig": signature}.items():
        (folder / name).write_bytes(octets)
