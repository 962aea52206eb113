"""Receipts of erasures: what a service signs about the files in which it erased a Member."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from daybreak_client import wire
from daybreak_client.errors import Expired, NotProved
from daybreak_client.proof.memory import Seen

_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://daybreak.example/erasure/v1"


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt whose signature is valid. `rows` were removed from `files` files."""

    erasure_id: str
    member_sha256: str
    finished_at: datetime
    files: int
    rows: int
    content: bytes
    signature: bytes


def checked_receipts(lines: bytes, trusted: Sequence[Seen], client_id: str) -> Iterator[Receipt | NotProved]:
    """Yield each receipt in the lines of a response, or why it is not proved by any of the `trusted` keys. A CA that
    signed it may have been replaced since, so one receipt does not stop the others.
    """
    for line in lines.splitlines():
        faults = []
        for seen in trusted:
            try:
                value = wire.mapping(wire.json_value(line))
                yield _verified(value["statement"].encode(), value["signature"].encode(), seen, client_id)
                break
            except (NotProved, Expired) as fault:
                faults.append(NotProved(fault.message))
            except wire.InvalidValue as fault:
                faults.append(NotProved(f"A receipt is invalid: {fault}."))
            except (ValueError, LookupError, TypeError, AttributeError):
                faults.append(NotProved("A receipt is not one of Daybreak."))
        else:
            yield faults[-1]


def _verified(content: bytes, signature: bytes, seen: Seen, client_id: str) -> Receipt:
    certificate = seen.trust.signed_statement(content, signature, client_id)
    value = wire.mapping(wire.json_value(content))
    predicate = wire.mapping(value["predicate"])
    if (value["_type"], value["predicateType"]) != (_TYPE, _PREDICATE_TYPE):
        raise wire.InvalidValue("it is of another type")
    if (predicate["service"], predicate["client_id"]) != (seen.trust.service, client_id):
        raise wire.InvalidValue("it is of another service or account")
    finished_at = wire.instant(predicate["finished_at"])
    # The key of a receipt is valid for minutes.
    certificate.check(finished_at, seen.revoked)
    rows = wire.items(predicate["files"], lambda file: wire.count(file["rows_removed"]))
    erasure_id, member = wire.uuid(predicate["erasure_id"]), wire.digest(predicate["member_sha256"])
    return Receipt(erasure_id, member, finished_at, len(rows), sum(rows), content, signature)
