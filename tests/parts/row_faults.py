"""Faulty rows for a platform: SQL that inserts a number of rows of each kind, and the rules that count them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path

import duckdb
import msgspec

from daybreak.catalogue.models import Model, as_of_literal, shipped_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.run_report import Accounting, Finding
from daybreak.export.job import ExportResults
from daybreak.filestore.file_store import FileSink
from daybreak.proof.accounting import SourceFigures, WrittenFigures, account, identities_of, source_rows
from daybreak.proof.examples import add_examples
from daybreak.proof.own_models import OwnModel, own_rules, read_own_models
from daybreak.proof.queries import SourceRow
from daybreak.sources.reading import Reading
from tests.parts.export_rows import MemorySink, export_job

Count = tuple[str, str, str]
"""Resource, table and rule."""


def faults(as_of: datetime) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield a table, a REPLACE list for copies of valid rows, and the (resource, rule) that count each copy."""
    later = f"{as_of_literal(as_of)} + INTERVAL 1 MICROSECOND"
    campaigns, usage, links = "campaigns", "outbound_message_type_usage", "campaign_links"
    for table, resource, new_id in (
        ("members", "members", "uuid() AS member_id, "),
        ("custom_field_values", "custom_member_data", "uuid() AS member_id, "),
        ("communities", "communities", "uuid() AS community_id, "),
        ("campaigns", "campaigns", "uuid() AS campaign_id, "),
        ("member_state_changes", "member_state_changes", ""),
        ("member_term_accepts", "member_term_accepts", ""),
    ):
        yield table, f"{new_id}uuid() AS leader_id", [(resource, "unknown_leader")]
        yield table, f"{new_id}NULL AS leader_id", [(resource, "no_leader")]
    for table, instant, resource, new_id in (
        ("campaigns", "sent_at", campaigns, "uuid() AS campaign_id, "),
        ("member_state_changes", "state_changed_at", "member_state_changes", ""),
        ("member_term_accepts", "accepted_at", "member_term_accepts", ""),
    ):
        yield table, f"{new_id}NULL AS {instant}", [(resource, "no_instant")]
        yield table, f"{new_id}{later} AS {instant}", [(resource, "after_as_of")]
        yield table, f"{new_id}{as_of_literal(as_of)} AS {instant}", []
    older = f"{as_of_literal(as_of)} - INTERVAL 90 DAY - INTERVAL 1 MICROSECOND"
    yield "member_term_accepts", f"{older} AS accepted_at", [("member_term_accepts", "older_than_90_days")]
    for table, instant, resources in (
        ("outbound_messages", "sent_at", (campaigns, usage)),
        ("inbound_messages", "received_at", (campaigns,)),
        ("link_hits", "hit_at", (links,)),
    ):
        yield table, f"NULL AS {instant}", [(resource, "no_instant") for resource in resources]
        yield table, f"{later} AS {instant}", [(resource, "after_as_of") for resource in resources]
    for table in ("outbound_messages", "inbound_messages"):
        yield table, "NULL AS campaign_id", [(campaigns, "no_campaign")]
        yield table, "uuid() AS campaign_id", [(campaigns, "unknown_campaign")]
    yield "outbound_messages", "uuid() AS leader_id, NULL AS campaign_id", [
        (campaigns, "no_campaign"), (usage, "unknown_leader"),
    ]  # fmt: skip
    yield "outbound_messages", "NULL AS leader_id, NULL AS campaign_id", [
        (campaigns, "no_campaign"), (usage, "no_leader"),
    ]  # fmt: skip
    yield "link_hits", "uuid() AS link_id", [(links, "unknown_link")]
    yield "link_hits", "NULL AS link_id", [(links, "unknown_link")]
    yield "campaign_links", "uuid() AS link_id, uuid() AS campaign_id", [(links, "unknown_campaign")]
    yield "campaign_links", "uuid() AS link_id", [(links, "merged")]
    joined = f"{as_of_literal(as_of)} - INTERVAL 2 DAY"
    left, pair = f"{as_of_literal(as_of)} AS left_at", "uuid() AS member_id"
    for changes, rule in (
        (f"{joined} AS joined_at, NULL AS left_at", "merged"),
        (f"{pair}, {joined} AS joined_at, {left}", "left"),
        ("NULL AS joined_at, NULL AS left_at", "no_instant"),
        (f"{pair}, NULL AS joined_at, NULL AS left_at", "no_instant"),
        (f"{later} AS joined_at, NULL AS left_at", "after_as_of"),
        (f"uuid() AS community_id, {joined} AS joined_at, NULL AS left_at", "unknown_community"),
    ):
        yield "community_memberships", changes, [("member_communities", rule)]


_VALID = {
    "campaigns": "sent_at < TIMESTAMP '2026-11-01'",
    "member_state_changes": "state_changed_at < TIMESTAMP '2026-11-01'",
    "outbound_messages": "campaign_id IN (SELECT campaign_id FROM campaigns WHERE sent_at < TIMESTAMP '2026-11-01')",
    "inbound_messages": "campaign_id IN (SELECT campaign_id FROM campaigns WHERE sent_at < TIMESTAMP '2026-11-01')",
    "campaign_links": "campaign_id IN (SELECT campaign_id FROM campaigns WHERE sent_at < TIMESTAMP '2026-11-01')",
    "link_hits": "hit_at < TIMESTAMP '2026-11-01'",
    "member_term_accepts": "accepted_at BETWEEN TIMESTAMP '2026-10-01' AND TIMESTAMP '2026-11-15'",
    "community_memberships": "left_at IS NULL AND joined_at < TIMESTAMP '2026-11-01'",
}


def add_faults(folder: Path, as_of: datetime, rows: int) -> Counter[Count]:
    """Add `rows` faulty rows of each kind to a Parquet platform. Return the rows that each rule counts in addition."""
    expected: Counter[Count] = Counter()
    with closing(duckdb.connect()) as engine:
        for table in SOURCE_TABLES:
            engine.execute(f"CREATE TABLE {table.name} AS SELECT * FROM '{folder / table.name}.parquet'")
            engine.execute(
                f"CREATE TABLE valid_{table.name} AS FROM {table.name} WHERE {_VALID.get(table.name, 'true')}"
            )
        for table_name, changes, counted in faults(as_of):
            # uuid() is evaluated for each row.
            engine.execute(
                f"INSERT INTO {table_name} SELECT * REPLACE ({changes}) FROM valid_{table_name} "
                f"ORDER BY ALL LIMIT {rows}"
            )
            for resource, rule in counted:
                expected[resource, table_name, rule] += rows
        engine.execute(f"INSERT INTO leaders SELECT * REPLACE (NULL AS leader_id) FROM valid_leaders LIMIT {rows}")
        expected["leaders", "leaders", "no_leader"] += rows
        for table in SOURCE_TABLES:
            engine.execute(f"COPY {table.name} TO '{folder / table.name}.parquet'")
    return expected


def accounting(
    reading: Reading,
    engine: str,
    as_of: datetime,
    sink: FileSink | None = None,
    *,
    resources: Sequence[str] = RESOURCE_NAMES,
) -> Accounting:
    """Export everything, or single resources, and account for it as a run does, with an example for each rule."""
    written = WrittenFigures(reading.leaders())
    for resource in resources:
        results = ExportResults()
        report = reading.export(export_job(resource, ("csv",)), sink or MemorySink(), results)
        written.add_rows(resource, ((e.client_id, e.rows) for e in results.entries if e.client_id))
        written.add_sums(resource, report.sums)
    shipped = shipped_models(reading.models).intersection(resources)
    own = [each for each in read_own_models(reading, engine, as_of, {}, lambda: None) if each.resource in resources]
    figures = SourceFigures(reading.leaders(), identities_of(shipped, own))
    figures.add(chain(source_rows(reading, engine, as_of, shipped, lambda: None), *(model.rows for model in own)))
    found = account(figures, written, reading.malformed)
    found = msgspec.structs.replace(found, own_models=own_rules(own, {}))
    return add_examples(reading, engine, as_of, found, own, rules_found(found), lambda: None)


def rules_found(accounted: Accounting) -> list[Finding]:
    """Return a finding for each rule."""
    return [Finding("rule", each.resource, "", column=rule) for each in accounted.tables for rule in each.excluded]


def examples(reading: Reading, engine: str, as_of: datetime) -> list[tuple[str, list[str], list[str]]]:
    """Return each table with examples for each account and figure, as if the files of shipped models had no rows, and
    for each rule.
    """
    own, shipped = list(read_own_models(reading, engine, as_of, {}, lambda: None)), shipped_models(reading.models)
    figures = SourceFigures(reading.leaders(), identities_of(shipped, own))
    figures.add(chain(source_rows(reading, engine, as_of, shipped, lambda: None), *(model.rows for model in own)))
    found = account(figures, WrittenFigures(reading.leaders()))
    models = reading.models
    reading.models = {  # type: ignore[misc]
        name: replace(model, sql=f'SELECT * FROM ({model.sql}) AS m WHERE "LEADER_ID" IS NULL')
        for name, model in models.items()
    }
    found = add_examples(reading, engine, as_of, found, own, rules_found(found), lambda: None)
    reading.models = models  # type: ignore[misc]
    return [
        (each.table, [u.example for u in each.unexplained if each.resource in shipped], sorted(each.examples.values()))
        for each in found.tables
    ]


def newest_instants(reading: Reading, engine: str, as_of: datetime) -> dict[str, datetime]:
    """Return the newest instant of each table."""
    figures = SourceFigures(reading.leaders(), ())
    figures.add(source_rows(reading, engine, as_of, shipped_models(reading.models), lambda: None))
    return figures.newest


ENDLESS_MODEL = Model(
    "campaigns",
    "SELECT COUNT(*) AS n FROM members AS a CROSS JOIN members AS b CROSS JOIN members AS c CROSS JOIN members AS d "
    "WHERE a.phone_number || b.phone_number || c.phone_number = d.phone_number",
    "endless.sql",
)
"""An operator's model that takes hours."""
OWN_MODELS = {
    # The join finds several fields for some Members, and none for others.
    "members": Model(
        "members",
        "SELECT m.member_id AS MEMBER_ID, m.leader_id AS LEADER_ID FROM members AS m JOIN custom_field_values AS v "
        "ON v.member_id = m.member_id WHERE m.email IS NOT NULL",
        "members.sql",
    ),
    "member_term_accepts": Model(
        "member_term_accepts",
        "SELECT member_id AS MEMBER_ID, leader_id AS LEADER_ID FROM member_term_accepts WHERE accepted_at <= :as_of "
        "AND accepted_at >= :as_of - INTERVAL '90' DAY",
        "member_term_accepts.sql",
    ),
    "campaigns": Model(
        "campaigns",
        "WITH sent AS (SELECT campaign_id, COUNT(*) AS n FROM outbound_messages GROUP BY campaign_id) "
        "SELECT c.campaign_id AS CAMPAIGN_ID, c.leader_id AS LEADER_ID FROM campaigns AS c "
        "LEFT JOIN sent USING (campaign_id) WHERE sent.n > 10 AND c.sent_at <= :as_of",
        "campaigns.sql",
    ),
    "outbound_message_type_usage": Model(
        "outbound_message_type_usage",
        "SELECT COUNT(*) FROM outbound_messages",
        "outbound_message_type_usage.sql",
        account=Model(
            "outbound_message_type_usage",
            "SELECT leader_id, CASE WHEN sent_at <= :as_of THEN NULL ELSE 'later' END AS rule, COUNT(*) AS rows "
            "FROM outbound_messages GROUP BY leader_id, CASE WHEN sent_at <= :as_of THEN NULL ELSE 'later' END",
            "outbound_message_type_usage.account.sql",
        ),
    ),
}
"""Own models that have the same meaning in every engine, for counts of their rows."""


def own_rows(reading: Reading, engine: str, as_of: datetime) -> dict[str, list[SourceRow]]:
    """Return the rows of the own models of a reading, by resource. Derived rules, whose names differ by dialect, are
    numbered.
    """
    found = list(read_own_models(reading, engine, as_of, {}, lambda: None))
    assert [model.fault for model in found if model.fault] == []

    def numbered(model: OwnModel, row: SourceRow) -> SourceRow:
        return (*row[:3], str(model.rules.index(row[3])) if row[3] in model.rules else row[3], *row[4:])

    return {model.resource: sorted((numbered(model, row) for row in model.rows), key=str) for model in found}


def accounted_for(
    reading: Reading, engine: str, as_of: datetime, sink: FileSink | None = None
) -> tuple[Accounting, tuple[object, ...]]:
    """Return the accounting of the shipped models, and what else is the same in every engine: the newest instants, the
    examples, and the rows and examples of own models.
    """
    found = accounting(reading, engine, as_of, sink)
    newest, shown = newest_instants(reading, engine, as_of), examples(reading, engine, as_of)
    reading.models = OWN_MODELS  # type: ignore[misc]
    own = own_rows(reading, engine, as_of)
    assert len(newest) == 5
    assert own.keys() == OWN_MODELS.keys()
    return found, (newest, shown, own, examples(reading, engine, as_of))


def excluded(accounted: Accounting) -> Counter[Count]:
    """Return the excluded rows."""
    return Counter(
        {
            (table.resource, table.table, rule): rows
            for table in accounted.tables
            for rule, rows in table.excluded.items()
        }
    )


def table_sizes(folder: Path) -> dict[str, int]:
    """Return the rows of each table of a Parquet platform."""
    with closing(duckdb.connect()) as engine:
        return {
            table.name: engine.execute(f"SELECT count(*) FROM '{folder / table.name}.parquet'").fetchall()[0][0]
            for table in SOURCE_TABLES
        }
