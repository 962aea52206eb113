"""Rows of the source behind a file, from the account's signed statement: exported, or excluded by a rule."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from daybreak.account_statements import stored_statement
from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import FileStoreError
from daybreak.domain.snapshot import Snapshot
from daybreak.proof.rules import RULES
from daybreak.proof.statement import ERASED
from daybreak.web.dashboard.page_request import PageRequest

_REASONS = {**RULES, ERASED: "of an erased Member"}
_STATUSES = {
    "proved": "Every row of these tables is in the file or excluded by a rule.",
    "declared": "The operator's own model made the file. Its own accounting counts every row.",
    "derived": "The operator's own model made the file. The rules are derived from its SQL.",
    "unaccounted": "The operator's own model made the file. It does not account for the rows that it leaves out.",
    "unexplained": "Some rows are neither in the file nor excluded by a rule. Ask your operator.",
}


def verify_command(resource: Resource) -> str:
    """Return shell commands that download the newest file and check it."""
    only = f"--only {resource.name}"
    return f"daybreak fetch exports {only}\ndaybreak verify exports {only} --complete"


async def load_source_rows(page: PageRequest, resource: Resource, snapshot: Snapshot) -> dict[str, object] | None:
    """Return the template variables about the source of a file, None if no statement was signed or it is lost.

    Raises Unavailable.
    """
    services = page.services
    try:
        statement = await stored_statement(services, page.client_id, snapshot.version)
    except FileStoreError:
        return None
    return None if statement is None else source_rows(json.loads(statement.content)["predicate"], resource, page.now)


def source_rows(predicate: Mapping[str, Any], resource: Resource, now: datetime) -> dict[str, object]:
    """Return the template variables of the predicate of a statement."""
    completeness = predicate["completeness"]
    section = dict(completeness.get(resource.name, {}))
    status = section.pop("status", completeness["status"])
    expires_at = datetime.fromisoformat(predicate["expires_at"])
    return {
        "status": _STATUSES[status],
        "warn": status == "unexplained",
        "edition": f"{predicate['version']}.{predicate['revision']}",
        "signed_at": datetime.fromisoformat(predicate["signed_at"]),
        "expires_at": expires_at,
        "expired": expires_at <= now,
        "tables": section,
        "reasons": _REASONS,
    }
