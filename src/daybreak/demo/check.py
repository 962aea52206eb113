"""Check of a running demo: files fetched over HTTP are compared with queries on the source tables."""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx

from daybreak.catalogue.formats import FORMATS
from daybreak.catalogue.resources import RESOURCES
from daybreak.demo.directory import DemoDirectory
from daybreak.demo.emails import CAREFUL_EMAIL, OWNER_EMAIL, VISITOR_EMAIL
from daybreak.domain.errors import OperatorError
from daybreak.export.sql import literal

# Row count of each file. Written independently of the models, so that errors in a model are detected.
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


def check_service(
    base_url: str, platform: Path, as_of: datetime, directory: DemoDirectory
) -> Iterator[tuple[str, bool]]:
    """Sign in, switch accounts, fetch the files of three Leaders as CSV and JSON, and compare them with the source.

    Yields what is compared, and whether it is as expected. Raises OperatorError for an unexpected HTTP status.
    """
    owner, visitor, careful = map(directory.seat, (OWNER_EMAIL, VISITOR_EMAIL, CAREFUL_EMAIL))
    with duckdb.connect() as source, httpx.Client(base_url=base_url, timeout=120) as http:
        source.execute("SET TimeZone = 'UTC'")
        for table in sorted(platform.glob("*.parquet")):
            source.execute(f"CREATE VIEW {table.stem} AS SELECT * FROM read_parquet({literal(str(table))})")
        token = _login(http, owner.email, owner.password)
        active = [client_id for client_id in owner.client_ids if client_id != directory.inactive_client_id]
        for client_id in [*active[:2], active[-1]]:
            switched = http.put("/download/v2/auth/context", headers=_bearer(token), json={"context": client_id})
            yield from _check_leader(http, source, as_of, client_id, _body(switched)["data"]["token"])
        # On a platform of up to five Leaders, the owner has every account.
        for client_id in set(careful.client_ids) - set(owner.client_ids):
            refused = http.get(_path(client_id, "campaigns.csv.gz"), headers=_bearer(token))
            yield "a file of another account is refused", refused.status_code == 403
        visitor_token = _login(http, visitor.email, visitor.password)
        refused = http.get(_path(visitor.client_ids[0], "campaigns.csv.gz"), headers=_bearer(visitor_token))
        yield "a seat without data_export is refused", refused.status_code == 403
        logged_out = http.delete("/download/v2/auth/logout", headers=_bearer(token))
        refused = http.get("/download/v2/auth/context", headers=_bearer(token))
        statuses = logged_out.status_code, refused.status_code
        yield "a token ends with its session", statuses == (204, 401)


def _check_leader(
    http: httpx.Client, source: duckdb.DuckDBPyConnection, as_of: datetime, client_id: str, token: str
) -> Iterator[tuple[str, bool]]:
    parameters = {"leader": client_id, "as_of": as_of}
    segments = 0
    for resource in RESOURCES:
        expected = _first_value(source, _ROW_COUNTS[resource.name], parameters)
        rows = {}
        for format in FORMATS[:2]:
            path = _path(client_id, resource.path_for(format))
            response = http.get(path, headers=_bearer(token), follow_redirects=True)
            if response.status_code != 200:
                raise OperatorError(f"GET {path} returned {response.status_code}: {response.text[:300]}")
            rows[format.name] = _rows(response.content, format.name)
        same = rows["csv"][1:] == _as_text(rows["json"])
        same = same and len(rows["json"]) == expected and tuple(rows["csv"][0]) == resource.column_names
        yield f"{resource.name} of {client_id}: {expected:,} rows, CSV and JSON agree", same
        if resource.name == "members":
            expected_members = _query(source, _MEMBERS, {"leader": client_id})
            found = [
                (row["MEMBER_ID"], row["PHONE_NUMBER"], row["SUBSCRIPTION_STATE"], row["LAST_NAME"])
                for row in rows["json"]
            ]
            yield f"members of {client_id}: every phone number, state and name", found == expected_members
        if resource.name == "outbound_message_type_usage":
            segments = sum(row["SEGMENT_COUNT"] for row in rows["json"])
    yield f"segments of {client_id}: {segments:,}", segments == _first_value(source, _TOTALS, parameters)


def _rows(stored: bytes, format: str) -> list[Any]:
    text = gzip.decompress(stored).decode("utf-8")
    if format == "json":
        found = json.loads(text)
        assert isinstance(found, list)
        return found
    return list(csv.reader(io.StringIO(text, newline="")))


def _as_text(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return JSON records as a CSV reader returns them: NULL and the empty string are the same."""
    return [
        ["" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell) for cell in record.values()]
        for record in records
    ]


def _login(http: httpx.Client, email: str, password: str) -> str:
    body = {"email": email, "password": password}
    return str(_body(http.post("/download/v2/auth/login", json=body))["token"])


def _body(response: httpx.Response) -> Any:
    if response.status_code != 200:
        request = response.request
        raise OperatorError(f"{request.method} {request.url} returned {response.status_code}: {response.text[:300]}")
    return response.json()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _path(client_id: str, file: str) -> str:
    return f"/download/v1/files/{client_id}/{file}"


def _first_value(source: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any]) -> int:
    return int(_query(source, query, parameters)[0][0])


def _query(source: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any]) -> list[Any]:
    bound = {name: value for name, value in parameters.items() if f"${name}" in query}
    return source.execute(query, bound).fetchall()
