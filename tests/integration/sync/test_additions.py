"""What a user adds to the tables stays: rows are updated in place, or the sync refuses and names the object."""

import random
from pathlib import Path

import duckdb
import psycopg
import pytest

from daybreak_client import AccountFiles, ClientError, DatabaseFailed, WrongUse, sync
from daybreak_client.database_sync import remove_account, synced_accounts
from tests.integration.sync.conftest import Target, both_databases, verified_sync
from tests.parts.churn import Churn
from tests.parts.delta_publisher import NORTH, SOUTH, Publisher, Row, id_of, member
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.variants import one_of

ADDITIONS = {
    "duckdb": """
        ALTER TABLE members ADD COLUMN note VARCHAR DEFAULT 'new';
        COMMENT ON TABLE members IS 'ours'; COMMENT ON COLUMN members."CITY" IS 'ours';
        ALTER TABLE members ALTER "CITY" SET DEFAULT 'nowhere';
        CREATE INDEX by_city ON members ("CITY");
        CREATE VIEW people AS SELECT * FROM members;
        CREATE TABLE calls (leader UUID, member UUID, length INTEGER,
            FOREIGN KEY (leader, member) REFERENCES members ("LEADER_ID", "MEMBER_ID"));
        """,
    "postgresql": """
        SET search_path = daybreak;
        ALTER TABLE members ADD COLUMN note varchar DEFAULT 'new',
            ADD COLUMN greeting text GENERATED ALWAYS AS ('Hello ' || "FIRST_NAME") STORED;
        COMMENT ON TABLE members IS 'ours'; COMMENT ON COLUMN members."CITY" IS 'ours';
        ALTER TABLE members ALTER "CITY" SET DEFAULT 'nowhere';
        CREATE INDEX by_city ON members ("CITY");
        CREATE UNIQUE INDEX by_phone ON members ("PHONE_NUMBER", lower("EMAIL"));
        CREATE VIEW people AS SELECT * FROM members;
        GRANT SELECT ON members TO public;
        ALTER TABLE members ENABLE ROW LEVEL SECURITY;
        CREATE POLICY all_rows ON members USING (true);
        CREATE TABLE calls (leader uuid, member uuid, length integer,
            FOREIGN KEY (leader, member) REFERENCES members ("LEADER_ID", "MEMBER_ID") ON DELETE CASCADE);
        CREATE TABLE updates (member uuid);
        CREATE FUNCTION record() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO daybreak.updates VALUES (OLD."MEMBER_ID"); RETURN OLD; END $$;
        CREATE TRIGGER record AFTER UPDATE ON members FOR EACH ROW EXECUTE FUNCTION record();
        """,
}
KEPT = {
    "duckdb": (
        "SELECT comment FROM duckdb_tables() WHERE table_name = 'members'",
        "SELECT comment, column_default FROM duckdb_columns() WHERE table_name = 'members' ORDER BY column_index",
        "SELECT index_name, sql FROM duckdb_indexes() ORDER BY 1",
        "SELECT constraint_name FROM duckdb_constraints() ORDER BY 1",
        "SELECT view_name FROM duckdb_views() WHERE view_name = 'people'",
    ),
    "postgresql": (
        (
            "SELECT obj_description('daybreak.members'::regclass), relacl::text, relrowsecurity FROM pg_class "
            "WHERE oid = 'daybreak.members'::regclass"
        ),
        (
            "SELECT attname, col_description(attrelid, attnum), pg_get_expr(adbin, adrelid) FROM pg_attribute "
            "LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum "
            "WHERE attrelid = 'daybreak.members'::regclass ORDER BY attnum"
        ),
        (
            "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index "
            "WHERE indrelid = 'daybreak.members'::regclass ORDER BY 1"
        ),
        (
            "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE connamespace = 'daybreak'::regnamespace ORDER BY 1"
        ),
        "SELECT polname::text FROM pg_policy UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    ),
}


def accept(number: int, country: str | None) -> Row:
    """Return a row of member_term_accepts. All have the same key."""
    at = "2026-11-01T00:00:00.000000Z"
    return (id_of(1), NORTH, id_of(2), f"{number}@example.org", country, True, None, at, *[None] * 7)


def engine(target: Target) -> str:
    return "postgresql" if target.is_postgresql else "duckdb"


def assert_equal(account: AccountFiles, target: Target, *, full: bool = False) -> None:
    result = verified_sync(account, target.url, full=full)
    assert all(each.action in {"full" if full else "delta", "unchanged"} for each in result.resources)


@both_databases
@pytest.mark.parametrize("full", one_of(False, True))
def test_additions_stay(
    target: Target, publishers: list[Publisher], accounts: list[AccountFiles], *, full: bool
) -> None:
    north, south = publishers
    south.publish({"members": [member(1, "Eve", SOUTH)]})
    north.publish({"members": [member(1, "Ana", phone="1"), member(2, "Eva", phone="2"), member(3, "Ida"), member(4)]})
    for account in accounts:
        sync(account, target.url)
    target.query(ADDITIONS[engine(target)])
    target.query(f"UPDATE {target.schema}.members SET note = 'mine ' || CAST(\"MEMBER_ID\" AS varchar)")
    calls = f"{target.schema}.calls"
    target.query(
        f'INSERT INTO {calls} SELECT "LEADER_ID", "MEMBER_ID", 7 FROM {target.schema}.members '
        f"WHERE \"MEMBER_ID\" <> '{id_of(3)}'"
    )
    target.query(f"DELETE FROM {target.schema}.updates" if target.is_postgresql else "SELECT 1")
    kept = [target.query(query) for query in KEPT[engine(target)]]
    # The first two exchange their phone numbers, the third is gone, the fourth stays, the fifth is new.
    north.publish({"members": [member(1, "Ana", phone="2"), member(2, "Uta", phone="1"), member(4), member(5)]})
    assert_equal(accounts[0], target, full=full)
    assert [target.query(query) for query in KEPT[engine(target)]] == kept
    notes = dict(target.query(f'SELECT CAST("MEMBER_ID" AS varchar), note FROM {target.schema}.people '
                              f"WHERE \"LEADER_ID\" = '{NORTH}'"))  # fmt: skip
    assert notes == {**{id_of(number): f"mine {id_of(number)}" for number in (1, 2, 4)}, id_of(5): "new"}
    assert target.query(f"SELECT count(*), min(length) FROM {calls}") == [(4, 7)]
    if target.is_postgresql:
        assert target.query("SELECT greeting FROM daybreak.members WHERE greeting LIKE '%Uta'") == [("Hello Uta",)]
        updated = target.query("SELECT DISTINCT member::text FROM daybreak.updates ORDER BY 1")
        assert updated == [(id_of(1),), (id_of(2),)]
    assert_equal(accounts[1], target, full=full)


@pytest.mark.parametrize("full", one_of(False, True))
def test_rows_that_return_keep_their_values(
    target: Target, north: Publisher, account: AccountFiles, *, full: bool
) -> None:
    """A row that is gone in one version and back in the next one stays, if both are synced together."""
    north.publish({"members": [member(1, "Ana"), member(2, "Eva")]})
    sync(account, target.url)
    target.query(f"ALTER TABLE {target.schema}.members ADD COLUMN note varchar")
    target.query(f"UPDATE {target.schema}.members SET note = 'mine'")
    for rows in ([member(2, "Uta"), member(3)], [member(3, "Ida"), member(4)], [member(1, "Ana"), member(2, "Eva")]):
        north.publish({"members": rows})
    assert_equal(account, target, full=full)
    assert target.query(f"SELECT note FROM {target.schema}.members") == [("mine",), ("mine",)]


@pytest.mark.parametrize("full", one_of(False, True))
def test_rows_with_equal_keys_keep_their_values(
    target: Target, north: Publisher, account: AccountFiles, *, full: bool
) -> None:
    north.publish({"member_term_accepts": [accept(1, "AT"), accept(1, "AT"), accept(2, None), accept(3, "CH")]})
    sync(account, target.url)
    table = f"{target.schema}.member_term_accepts"
    target.query(f"ALTER TABLE {table} ADD COLUMN note varchar DEFAULT 'new'")
    target.query(f'UPDATE {table} SET note = "MEMBER_EMAIL"')
    north.publish({"member_term_accepts": [accept(1, "AT"), accept(1, "AT"), accept(2, "DE"), accept(3, "CH")]})
    assert_equal(account, target, full=full)
    assert target.query(f'SELECT count(*) FROM {table} WHERE note = "MEMBER_EMAIL"') == [(4,)]
    north.publish({"member_term_accepts": [accept(1, "AT"), accept(2, "DE"), accept(4, None)]})
    assert_equal(account, target)
    north.publish({"member_term_accepts": [accept(1, "AT")] * 5})
    assert_equal(account, target, full=full)


@pytest.mark.release
@pytest.mark.parametrize("full", [False, True])
def test_tables_with_additions_equal_the_files(
    target: Target, north: Publisher, account: AccountFiles, *, full: bool
) -> None:
    churn = Churn(NORTH, seed=1)
    for day in range(5):
        north.publish(churn.day())
        if day != 2:
            assert_equal(account, target, full=full) if day else sync(account, target.url)
        if day == 0:
            for table in ("members", "member_state_changes", "member_term_accepts", "campaign_links"):
                target.query(f"ALTER TABLE {target.schema}.{table} ADD COLUMN note varchar")
                target.query(f'CREATE INDEX {table}_by_account ON {target.schema}.{table} ("LEADER_ID")')


@pytest.mark.parametrize("full", one_of(False, True))
@pytest.mark.parametrize("action", one_of("ON DELETE CASCADE", "", "ON DELETE RESTRICT", "ON DELETE SET NULL"))
def test_foreign_keys_between_the_tables(
    postgresql_url: str, north: Publisher, account: AccountFiles, *, full: bool, action: str
) -> None:
    def joined(number: int) -> Row:
        return (id_of(9), "Fans", NORTH, id_of(number), None)

    north.publish({"members": [member(1), member(2)], "member_communities": [joined(1), joined(2)]})
    sync(account, postgresql_url)
    with psycopg.connect(postgresql_url) as connection:
        connection.execute(
            'ALTER TABLE daybreak.member_communities ADD CONSTRAINT own FOREIGN KEY ("LEADER_ID", "MEMBER_ID") '
            f"REFERENCES daybreak.members {action}".encode()
        )
    north.publish({"members": [member(2), member(3)], "member_communities": [joined(2), joined(3)]})
    result = sync(account, postgresql_url, full=full, verify=True)
    assert result.different == ()
    assert {each.action for each in result.resources} == ({"full"} if full else {"delta", "unchanged"})


REFUSED = [
    (
        "duckdb",
        ('CREATE TABLE calls (l UUID, m UUID, FOREIGN KEY (l, m) REFERENCES members ("LEADER_ID", "MEMBER_ID"));'
        'INSERT INTO calls SELECT "LEADER_ID", "MEMBER_ID" FROM members'),
        "members: .*referred to by a foreign key.*foreign key of calls",
    ),
    ("duckdb", 'CREATE UNIQUE INDEX names ON members ("FIRST_NAME")', "members: .*index names"),
    (
        "postgresql",
        ('CREATE TABLE daybreak.calls (l uuid, m uuid, CONSTRAINT who FOREIGN KEY (l, m) REFERENCES daybreak.members);'
        'INSERT INTO daybreak.calls SELECT "LEADER_ID", "MEMBER_ID" FROM daybreak.members'),
        "members: .*constraint who.*ON DELETE CASCADE",
    ),
    ("postgresql", 'CREATE UNIQUE INDEX names ON daybreak.members ("FIRST_NAME")', "members: .*constraint names.*Drop"),
    ("postgresql", 'ALTER TABLE daybreak.members ALTER "CITY" SET NOT NULL', "members: .*column CITY.*permit NULL"),
    ("postgresql", 'ALTER TABLE daybreak.members ADD CONSTRAINT x EXCLUDE ("FIRST_NAME" WITH =)', "constraint x"),
    (
        "postgresql",
        ("CREATE FUNCTION daybreak.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no %', NEW; END $$;"
        "CREATE TRIGGER no BEFORE INSERT OR UPDATE ON daybreak.members FOR EACH ROW EXECUTE FUNCTION daybreak.no()"),
        "members: .*RaiseException.*triggers or rules of yours: no",
    ),
    (
        "postgresql",
        ("CREATE FUNCTION daybreak.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
        "CREATE TRIGGER skip BEFORE INSERT OR DELETE ON daybreak.members FOR EACH ROW EXECUTE FUNCTION daybreak.no()"),
        "members: .*triggers or rules of yours: skip",
    ),
    (
        "postgresql",
        ("CREATE FUNCTION daybreak.no() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.\"FIRST_NAME\" = 'other'; RETURN NEW; END $$;"
        "CREATE TRIGGER other BEFORE INSERT OR UPDATE ON daybreak.members FOR EACH ROW EXECUTE FUNCTION daybreak.no()"),
        "members: rows are not stored as they are in the files.*rules of yours: other",
    ),
    (
        "postgresql",
        "CREATE RULE nothing AS ON UPDATE TO daybreak.members DO INSTEAD NOTHING",
        "members: rows are not stored as they are in the files.*rules of yours: nothing",
    ),
    (
        "postgresql",
        ("ALTER TABLE daybreak.members ADD COLUMN note text; UPDATE daybreak.members SET note = 'x';"
        "ALTER TABLE daybreak.members ALTER note SET NOT NULL"),
        "members: .*column note.*default",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("target", "addition", "message"), REFUSED, indirect=["target"])
@pytest.mark.parametrize("full", one_of(False, True))
def test_what_cannot_stay_is_named(
    target: Target, north: Publisher, account: AccountFiles, addition: str, message: str, *, full: bool
) -> None:
    rows = [(*member(1, "Ana")[:9], "Wien", *[None] * 6), (*member(2, "Eva")[:9], "Graz", *[None] * 6)]
    north.publish({"members": rows})
    sync(account, target.url)
    target.query(addition)
    before = target.query(f"SELECT * FROM {target.schema}.members ORDER BY 1")
    north.publish({"members": [member(2, "Secret"), member(3, "Secret")]})
    with pytest.raises(ClientError, match=message) as caught:
        sync(account, target.url, full=full)
    assert "Secret" not in str(caught.value)
    assert target.query(f"SELECT * FROM {target.schema}.members ORDER BY 1") == before
    assert target.query(f"SELECT DISTINCT version FROM {target.schema}._daybreak_sync") == [(1,)]


REFERRING = (
    "CREATE TABLE {0}.calls (l uuid, m uuid, "
    'CONSTRAINT who FOREIGN KEY (l, m) REFERENCES {0}.members ("LEADER_ID", "MEMBER_ID"))'
)


def test_key_that_others_need_is_not_dropped(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish({"members": [member(1), member(2)]})
    sync(account, target.url)
    target.query(REFERRING.format(target.schema))
    north.publish({"members": [member(1), member(1, "again"), member(2)]})
    named = DatabaseFailed if target.is_postgresql else WrongUse
    with pytest.raises(named, match=r"members.* (constraint who on table calls.*Drop what|foreign key of calls)"):
        sync(account, target.url)
    assert target.query(f"SELECT count(*) FROM {target.schema}.members") == [(2,)]
    target.query(f"DROP TABLE {target.schema}.calls")
    assert sync(account, target.url, verify=True).different == ()


@pytest.mark.release
def test_publications_of_all_tables(postgresql_url: str, north: Publisher, account: AccountFiles) -> None:
    """Tables without primary key have a replica identity, also those of an earlier version. That of the user stays."""
    churn = Churn(NORTH, seed=4)
    north.publish(churn.day())
    sync(account, postgresql_url)
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        connection.execute("ALTER TABLE daybreak.member_term_accepts REPLICA IDENTITY DEFAULT")
        connection.execute("ALTER TABLE daybreak.communities REPLICA IDENTITY FULL")
        for full in (False, True):
            rows = churn.day()
            rows["members"].append(rows["members"][0])
            north.publish(rows)
            assert sync(account, postgresql_url, full=full, verify=True).different == ()
        identities: dict[str, str] = dict(
            connection.execute(
                "SELECT relname, relreplident FROM pg_class WHERE relnamespace = 'daybreak'::regnamespace "
                "AND relkind = 'r'"
            ).fetchall()
        )
    full_identity = {name for name, identity in identities.items() if identity == "f"}
    assert full_identity == {"member_state_changes", "member_term_accepts", "members", "communities"}


@pytest.mark.parametrize("schema", one_of('Own "Ex a%b%s x.y; --', "select"))
def test_schema_of_any_name(target: Target, north: Publisher, account: AccountFiles, schema: str) -> None:
    churn = Churn(NORTH, seed=6)
    for full in (False, False, True):
        north.publish(churn.day())
        assert sync(account, target.url, schema=schema, full=full, verify=True).different == ()
    remove_account(target.url, NORTH, schema)
    assert synced_accounts(target.url, schema) == frozenset()


def test_removed_account_that_own_rows_refer_to(target: Target, north: Publisher, account: AccountFiles) -> None:
    north.publish({"members": [member(1)], "member_communities": [(id_of(9), "Fans", NORTH, id_of(1), None)]})
    sync(account, target.url)
    target.query(REFERRING.format(target.schema))
    calls = f"{target.schema}.calls"
    target.query(f'INSERT INTO {calls} SELECT "LEADER_ID", "MEMBER_ID" FROM {target.schema}.members')
    with pytest.raises(DatabaseFailed, match="Delete the rows that refer to it") as caught:
        remove_account(target.url, NORTH)
    assert id_of(1) not in caught.value.message
    target.query(f"DELETE FROM {calls}")
    if target.is_postgresql:
        target.query(
            'ALTER TABLE daybreak.member_communities ADD FOREIGN KEY ("LEADER_ID", "MEMBER_ID") '
            "REFERENCES daybreak.members"
        )
    remove_account(target.url, NORTH)
    assert target.query(f"SELECT count(*) FROM {target.schema}.members") == [(0,)]


@pytest.mark.parametrize("full", one_of(False, True))
def test_values_that_a_collation_calls_equal_are_updated(
    tmp_path: Path, north: Publisher, account: AccountFiles, *, full: bool
) -> None:
    target = f"duckdb:///{tmp_path / 'exports.duckdb'}"
    north.publish({"members": [member(1, "ana")]})
    sync(account, target)
    with duckdb.connect(str(tmp_path / "exports.duckdb")) as connection:
        connection.execute('ALTER TABLE members ALTER "FIRST_NAME" TYPE VARCHAR COLLATE NOCASE')
    north.publish({"members": [member(1, "Ana")]})
    assert sync(account, target, full=full, verify=True).different == ()


@pytest.mark.release
@pytest.mark.parametrize("length", one_of(9000, 2000))
def test_long_values_and_indexes(postgresql_url: str, north: Publisher, account: AccountFiles, length: int) -> None:
    """A primary key that they do not fit into is dropped; an index of the user is not."""
    value = random.Random(7).randbytes(length).hex()

    def custom(name: str, text: str) -> Row:
        return (id_of(1), NORTH, name, text)

    north.publish({"custom_member_data": [custom("a", "b")]})
    sync(account, postgresql_url)
    north.publish({"custom_member_data": [custom(value, "b")]})
    (note,) = sync(account, postgresql_url, verify=True).notes
    assert "too long for an index" in note
    with psycopg.connect(postgresql_url) as connection:
        connection.execute('CREATE INDEX own ON daybreak.custom_member_data ("CUSTOM_FIELD_VALUE")')
    north.publish({"custom_member_data": [custom("a", value)]})
    with pytest.raises(DatabaseFailed, match=r"custom_member_data: .*too long for an index of yours\. Drop"):
        sync(account, postgresql_url)


def test_policy_that_hides_rows_is_refused(
    postgresql_server: PostgreSQLServer, postgresql_url: str, north: Publisher, account: AccountFiles
) -> None:
    database = postgresql_url.rpartition("/")[2]
    role = f"loader_{database}"
    postgresql_server.execute(
        f"CREATE ROLE {role} LOGIN", f'CREATE SCHEMA "Own ""Ex" AUTHORIZATION {role}', database=database
    )
    url = postgresql_server.url(database, user=role)
    north.publish({"members": [member(1), member(2)]})
    sync(account, url, schema='Own "Ex')
    postgresql_server.execute(
        'ALTER TABLE "Own ""Ex".members FORCE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY',
        f'CREATE POLICY half ON "Own ""Ex".members USING ("MEMBER_ID" > \'{id_of(1)}\')',
        database=database,
    )
    north.publish({"members": [member(2)]})
    with pytest.raises(DatabaseFailed, match='row-level security policy for table "members"'):
        sync(account, url, schema='Own "Ex')
    postgresql_server.execute('ALTER TABLE "Own ""Ex".members NO FORCE ROW LEVEL SECURITY', database=database)
    assert sync(account, url, schema='Own "Ex', verify=True).different == ()
