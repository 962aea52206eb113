"""A publisher of deltas that also signs, and that tests turn into an attacker."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.parts.delta_publisher import Publisher, Version
from tests.parts.scripted_service import Reply, Request
from tests.parts.statement_signer import Signer, statement


@dataclass
class SignedPublisher:
    """Statements for the versions of a publisher. `changes` replace values of a version's statement, and `kept` whole
    statements.
    """

    publisher: Publisher
    signer: Signer = field(default_factory=Signer)
    trust: bytes = b""
    trust_signature: bytes = b""
    revoked: bytes = b""
    revision: int = 1
    signs: bool = True
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    kept: dict[int, bytes] = field(default_factory=dict)
    receipts: bytes = b""

    def __post_init__(self) -> None:
        self.trust = self.signer.trust()
        self.publisher.before_reply = self.reply

    def reply(self, request: Request) -> Reply | None:
        """Answer requests for trust files and statements."""
        path = request.path
        files = f"/download/v1/files/{self.publisher.client_id}"
        current = len(self.publisher.versions)
        found: Mapping[str, bytes] = {}
        if path.startswith("/download/v1/trust"):
            assert "authorization" not in request.headers
            found = {"": self.trust, ".sig": self.trust_signature, "/revoked": self.revoked}
            content = found.get(path.removeprefix("/download/v1/trust"), b"")
        elif path.startswith(f"{files}/statement.json"):
            content = self.statement(current)
            content = self._signature(content) if path.endswith(".sig") else content
        elif path.startswith(f"{files}/statements/"):
            content = self.statement(int(path.removeprefix(f"{files}/statements/").split(".")[0]))
        elif path == f"{files}/receipts":
            return Reply(200, self.receipts)
        else:
            return None
        if not content or not self.signs:
            return Reply(404, {"code": "not_found", "detail": "No such page."})
        return Reply(200, content)

    def _signature(self, content: bytes) -> bytes:
        return self.signer.sign(content, client_id=self.publisher.client_id)

    def statement(self, number: int) -> bytes:
        """Return the statement of a version."""
        if number in self.kept:
            return self.kept[number]
        version, before = self.publisher.versions[number - 1], None
        if number > 1:
            digest = hashlib.sha256(self.statement(number - 1)).hexdigest()
            before = {"version": number - 1, "revision": 1, "sha256": digest}
        return statement(
            {f"{name}.csv.gz": gzip.compress(content, 1, mtime=0) for name, content in version.full.items()},
            number,
            self.revision if number == len(self.publisher.versions) else 1,
            {name: len(rows) for name, rows in version.rows.items()},
            **{
                "client_id": self.publisher.client_id, "chain_id": self.publisher.chain_id, "as_of": version.as_of,
                "previous": before, "deltas": self._deltas(version), "completeness": None,
                **self.changes.get(number, {}),
            },
        )  # fmt: skip

    def _deltas(self, version: Version) -> dict[str, object]:
        found: dict[str, object] = {}
        for resource, change in version.changes.items():
            if change["state"] == "changed":
                found[resource] = {
                    "from": {"version": version.number - 1, "revision": 1,
                             "content_sha256": change["content_sha256_before"]},
                    "sha256": hashlib.sha256(version.deltas[f"{resource}.delta.csv.gz"]).hexdigest(),
                    "to_content_sha256": change["content_sha256_after"],
                    "deleted": change["deleted"], "inserted": change["inserted"],
                    "constants": dict(change["constants"]),
                }  # fmt: skip
        return found
