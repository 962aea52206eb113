"""The demo checks itself from outside: files fetched over HTTP, compared with the source by queries of its own."""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx

from daybreak.catalogue.formats import FORMATS
from daybreak.catalogue.resources import RESOURCES
from daybreak.demo.directory import OWNER_EMAIL, VISITOR_EMAIL, DemoDirectory
from daybreak.demo.draws import quoted
from daybreak.domain.errors import OperatorError

# Written apart from the models on purpose: rows that each file must have, by the source tables alone.
_ROW_COUNTS = {
    "campaigns": "SELECT count(*) FROM campaigns WHERE leader_id = $leader AND sent_at <= $as_of",
    "outbound_message_type_usage": """
        SELECT count(DISTINCT (sent_at::DATE, usage_channel, outbound_message_type))
        FROM outbound_messages WHERE leader_id = $leader AND sent_at <= $as_of""",
    "campaign_links": """
        SELECT count(DISTINCT (campaign_id, link_type, link_url)) FROM campaign_links
        WHERE campaign_id IN (SELECT campaign_id FROM campaigns WHERE leader_id = $leader AND sent_at <= $as_of)""",
    "members": "SELECT count(*) FROM members WHERE leader_id = $leader",
    "member_state_changes": """
        SELECT count(*) FROM member_state_changes WHERE leader_id = $leader AND state_changed_at <= $as_of""",
    "member_term_accepts": """
        SELECT count(*) FROM member_term_accepts
        WHERE leader_id = $leader AND accepted_at BETWEEN $as_of - INTERVAL 90 DAY AND $as_of""",
    "custom_member_data": "SELECT count(*) FROM custom_field_values WHERE leader_id = $leader",
    "communities": "SELECT count(*) FROM communities WHERE leader_id = $leader",
    "member_communities": """
        SELECT count(DISTINCT (community_id, member_id)) FROM community_memberships
        WHERE community_id IN (SELECT community_id FROM communities WHERE leader_id = $leader)
          AND joined_at <= $as_of AND (left_at IS NULL OR left_at > $as_of)""",
}
_MEMBERS = """
    SELECT member_id::VARCHAR, CASE WHEN subscription_state <> 'deleted' THEN phone_number END,
           subscription_state, CASE WHEN subscription_state <> 'deleted' THEN last_name END
    FROM members WHERE leader_id = $leader ORDER BY 1"""
_TOTALS = "SELECT coalesce(sum(segment_count), 0)::BIGINT FROM outbound_messages WHERE leader_id = $leader AND sent_at <= $as_of"


@dataclass(frozen=True, slots=True)
class Checked:
    """One thing that was held against the source, in words."""

    what: str
    good: bool


def check_service(base_url: str, platform: Path, as_of: datetime, directory: DemoDirectory) -> Iterator[Checked]:
    """Logs in, switches accounts, fetches every file of three Leaders in CSV and JSON, and compares.

    Raises OperatorError when the service does not answer as it should.
    """
    owner, visitor = directory.seat(OWNER_EMAIL), directory.seat(VISITOR_EMAIL)
    with duckdb.connect() as source, httpx.Client(base_url=base_url, timeout=120) as http:
        source.execute("SET TimeZone = 'UTC'")
        for table in sorted(platform.glob("*.parquet")):
            source.execute(f"CREATE VIEW {table.stem} AS SELECT * FROM read_parquet({quoted(str(table))})")
        token = _login(http, owner.email, owner.password)
        active = [client_id for client_id in owner.client_ids if client_id != directory.inactive_client_id]
        for client_id in [*active[:2], active[-1]]:
            bound = _answer(
                http.put("/download/v2/auth/context", headers=_bearer(token), json={"context": client_id}), 200
            )["data"]["token"]
            yield from _check_leader(http, source, as_of, client_id, bound)
        refused = http.get(_path(visitor.client_ids[0], "campaigns.csv.gz"), headers=_bearer(token))
        foreign = visitor.client_ids[0] not in owner.client_ids
        yield Checked("a file of another account is refused", not foreign or refused.status_code == 403)
        poor = _login(http, visitor.email, visitor.password)
        refused = http.get(_path(visitor.client_ids[0], "campaigns.csv.gz"), headers=_bearer(poor))
        yield Checked("a seat without data_export is refused", refused.status_code == 403)
        _ended = http.delete("/download/v2/auth/logout", headers=_bearer(token))
        yield Checked("a token ends with its session", _ended.status_code == 204 and _is_over(http, token))


def _check_leader(
    http: httpx.Client, source: duckdb.DuckDBPyConnection, as_of: datetime, client_id: str, token: str
) -> Iterator[Checked]:
    parameters = {"leader": client_id, "as_of": as_of}
    segments = 0
    for resource in RESOURCES:
        expected = _one(source, _ROW_COUNTS[resource.name], parameters)
        rows = {}
        for format in FORMATS[:2]:
            path = _path(client_id, resource.path_for(format))
            response = http.get(path, headers=_bearer(token), follow_redirects=True)
            if response.status_code != 200:
                raise OperatorError(f"GET {path} answered {response.status_code}: {response.text[:300]}")
            rows[format.name] = _rows(response.content, format.name)
        same = rows["csv"][1:] == _as_text(rows["json"])
        yield Checked(
            f"{resource.name} of {client_id}: {expected:,} rows, CSV and JSON agree",
            same and len(rows["json"]) == expected and tuple(rows["csv"][0]) == resource.column_names,
        )
        if resource.name == "members":
            wanted = _all(source, _MEMBERS, {"leader": client_id})
            picked = [
                (row["MEMBER_ID"], row["PHONE_NUMBER"], row["SUBSCRIPTION_STATE"], row["LAST_NAME"])
                for row in rows["json"]
            ]
            yield Checked(f"members of {client_id}: every phone number, state and name", picked == wanted)
        if resource.name == "outbound_message_type_usage":
            segments = sum(row["SEGMENT_COUNT"] for row in rows["json"])
    yield Checked(f"segments of {client_id}: {segments:,}", segments == _one(source, _TOTALS, parameters))


def _rows(stored: bytes, format: str) -> list[Any]:
    text = gzip.decompress(stored).decode("utf-8")
    if format == "json":
        found = json.loads(text)
        assert isinstance(found, list)
        return found
    return list(csv.reader(io.StringIO(text, newline="")))


def _as_text(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    """JSON records as a CSV reader shows them, where NULL and the empty string look the same."""
    return [
        ["" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell) for cell in record.values()]
        for record in records
    ]


def _login(http: httpx.Client, email: str, password: str) -> str:
    body = {"email": email, "password": password}
    return str(_answer(http.post("/download/v2/auth/login", json=body), 200)["token"])


def _is_over(http: httpx.Client, token: str) -> bool:
    return http.get("/download/v2/auth/context", headers=_bearer(token)).status_code == 401


def _answer(response: httpx.Response, status: int) -> Any:
    if response.status_code != status:
        request = response.request
        raise OperatorError(f"{request.method} {request.url} answered {response.status_code}: {response.text[:300]}")
    return response.json()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _path(client_id: str, file: str) -> str:
    return f"/download/v1/files/{client_id}/{file}"


def _one(source: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any]) -> int:
    return int(_all(source, query, parameters)[0][0])


def _all(source: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any]) -> list[Any]:
    used = {name: value for name, value in parameters.items() if f"${name}" in query}
    return source.execute(query, used).fetchall()
