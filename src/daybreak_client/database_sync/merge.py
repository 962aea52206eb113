"""Rows of an account are updated in place, so that what the user has added to a table stays.

Files are copied into a stage next to the table. Rows that are gone are deleted, those that stay are updated where they
differ, and new ones are inserted. A row that stays keeps its values in columns of the user, and the rows that refer to
it.
"""

from collections.abc import Iterable, Sequence

from daybreak_client.database_sync.database import (
    KEY_PROBLEM,
    STAGE,
    Applied,
    Database,
    KeyViolation,
    WrongContent,
    columns_with_types,
    identifier,
    identifiers,
)
from daybreak_client.tables import LEADER_COLUMN, TEXT, Table

OPERATION = "_OP"
# Position of the file, and the row of the table that a row replaces. Only tables without primary key need the latter.
SEQUENCE, ROW = "_SEQUENCE", "_ROW"
_NEW = f"s.{identifier(OPERATION)} = 'I'"


class Merge:
    """Statements that bring the rows of one account in the table `target` to those of its `stage`.

    The stage lasts as long as the transaction. It contains all rows of the account if `full`, else changes. The table
    has its primary key if `keyed`; else rows are compared in full, then paired by key.
    """

    def __init__(self, database: Database, table: Table, client_id: str, *, full: bool) -> None:
        self.database, self.table, self.client_id, self.full = database, table, client_id, full
        self.target = database.qualified(table.name)
        self.stage = f"{database.temporary_schema}.{identifier(f'{STAGE}_{table.name}')}"
        self.keyed = database.has_key(table)

    @property
    def stage_columns(self) -> str:
        """Columns of the stage, as CREATE TABLE has them."""
        operation, sequence, row = map(identifier, (OPERATION, SEQUENCE, ROW))
        return (
            f"{operation} text DEFAULT 'I', {sequence} integer DEFAULT 0, {row} {self.database.row_id_type}, "
            f"{columns_with_types(self.table, self.database.types)}"
        )

    def delete(self) -> Applied:
        """Check the stage and delete the rows that are gone. Returns the deleted rows and those that files contain.

        Raises WrongContent, KeyViolation.
        """
        operation = f"s.{identifier(OPERATION)}"
        foreign = self._number(
            f"{operation} NOT IN ('D', 'I') OR {_NEW} AND s.{identifier(LEADER_COLUMN)} IS DISTINCT FROM "
            f"{self.database.placeholder}",
            self.client_id,
        )
        if foreign:
            raise WrongContent(self.table.name, "a file contains rows of another account")
        staged = self._number(_NEW)
        if self.full and self.keyed:
            check_key(self.database, self.table, self.stage)
        if not self.full:
            self._delete_superseded()
        if not self.keyed:
            self._pair()
        touched = "" if self.full else f"AND EXISTS (SELECT 1 FROM {self.stage} AS s WHERE {self._same_key}) "
        gone = self.database.number(
            f"DELETE FROM {self.target} AS t WHERE {self._scope} {touched}"
            f"AND NOT EXISTS (SELECT 1 FROM {self.stage} AS s WHERE {_NEW} AND {self._match})",
            [self.client_id],
        )
        return Applied(gone, staged)

    def update(self, columns: Sequence[str] | None = None, *, empty: bool = False) -> None:
        """Update the rows that differ in these columns, by default in any. `empty` sets them to NULL."""
        if columns is None:
            columns = [name for name in self.table.column_names if name not in self.table.primary_key]
        columns = [name for name in columns if name not in {LEADER_COLUMN, *self.table.key}]
        if not columns:
            return
        values = ", ".join(f"{identifier(name)} = {'NULL' if empty else f's.{identifier(name)}'}" for name in columns)
        old, new = (self._row(alias, columns) for alias in "ts")
        self.database.number(
            f"UPDATE {self.target} AS t SET {values} FROM {self.stage} AS s WHERE {_NEW} AND {self._match} "
            f"AND {self._scope} AND {old} IS DISTINCT FROM {new}",
            [self.client_id],
        )

    def insert(self, deleted: Applied) -> Applied:
        """Insert the new rows. Returns the deleted and inserted rows, where an updated row is both."""
        found = f"NOT EXISTS (SELECT 1 FROM {self.target} AS t WHERE {self._scope} AND {self._match})"
        is_new, parameters = (found, [self.client_id]) if self.keyed else (f"s.{identifier(ROW)} IS NULL", [])
        names = identifiers(self.table.column_names)
        inserted = self.database.number(
            f"INSERT INTO {self.target} ({names}) SELECT {names} FROM {self.stage} AS s WHERE {_NEW} AND {is_new}",
            parameters,
        )
        # Rows of earlier files that a later file replaces count as inserted and deleted.
        return Applied(deleted.deleted + deleted.inserted - inserted, deleted.inserted, deleted.replaced_characters)

    def check(self) -> None:
        """Check that the rows of the stage are stored as they are. Raises WrongContent.

        Without primary key, rows that were updated cannot be found.
        """
        if not self.keyed:
            return
        old, new = (self._row(alias, self.table.column_names) for alias in "ts")
        stored = f"SELECT 1 FROM {self.target} AS t WHERE {self._match} AND {old} IS NOT DISTINCT FROM {new}"
        if self._number(f"{_NEW} AND NOT EXISTS ({stored})"):
            raise WrongContent(self.table.name, "rows are not stored as they are in the files")

    @property
    def _scope(self) -> str:
        return f"t.{identifier(LEADER_COLUMN)} = {self.database.placeholder}"

    @property
    def _same_key(self) -> str:
        if self.keyed:
            return " AND ".join(f"t.{identifier(name)} = s.{identifier(name)}" for name in self.table.key)
        return " = ".join(self._composite(alias, self.table.key) for alias in "ts")

    @property
    def _match(self) -> str:
        """Condition: the row t stays, with the values of the row s."""
        return self._same_key if self.keyed else f"{self.database.row_id.format('t')} = s.{identifier(ROW)}"

    def _composite(self, alias: str, columns: Iterable[str]) -> str:
        return self.database.composite.format(", ".join(f"{alias}.{identifier(name)}" for name in columns))

    def _row(self, alias: str, columns: Iterable[str]) -> str:
        """Return a list of values, where texts are equal only if their bytes are, whatever their collation."""
        texts = {column.name for column in self.table.columns if column.kind == TEXT}
        cells = (f"{alias}.{identifier(name)}" + (' COLLATE "C"' if name in texts else "") for name in columns)
        return f"ROW({', '.join(cells)})"

    def _number(self, condition: str, *parameters: object) -> int:
        return self.database.number(f"SELECT count(*) FROM {self.stage} AS s WHERE {condition}", parameters)

    def _delete_superseded(self) -> None:
        """Keep the rows of the last file that contains a key."""
        row_id, sequence = self.database.row_id, identifier(SEQUENCE)
        if not self._number(f"s.{sequence} > 0"):
            return
        self.database.number(
            f"DELETE FROM {self.stage} AS s WHERE {row_id.format('s')} IN (SELECT id FROM (SELECT "
            f"{row_id.format('o')} AS id, o.{sequence} AS place, max(o.{sequence}) OVER (PARTITION BY "
            f"{self._composite('o', self.table.key)}) AS last FROM {self.stage} AS o) AS ranked "
            "WHERE place < last)",
            [],
        )

    def _pair(self) -> None:
        """Find for each row of the stage the row that it replaces: an equal one, else one with the same key."""
        touched = "" if self.full else f" AND EXISTS (SELECT 1 FROM {self.stage} AS s WHERE {self._same_key})"
        old = self._numbered("t", f"{self.target} AS t WHERE {self._scope}{touched}")
        new = self._numbered("s", f"{self.stage} AS s WHERE {_NEW}")
        rest = (
            "SELECT id, same_key, row_number() OVER (PARTITION BY same_key ORDER BY content) AS place FROM {0} "
            "WHERE NOT EXISTS (SELECT 1 FROM equal WHERE equal.{0}_id = {0}.id)"
        )
        self.database.number(
            f"UPDATE {self.stage} AS s SET {identifier(ROW)} = pair.old_id FROM (WITH old AS ({old}), new AS ({new}), "
            "equal AS (SELECT old.id AS old_id, new.id AS new_id FROM old JOIN new USING (content, place)), "
            f"old_rest AS ({rest.format('old')}), new_rest AS ({rest.format('new')}) "
            "SELECT old_id, new_id FROM equal UNION ALL "
            "SELECT o.id, n.id FROM old_rest AS o JOIN new_rest AS n USING (same_key, place)) AS pair "
            f"WHERE {self.database.row_id.format('s')} = pair.new_id",
            [self.client_id],
        )

    def _numbered(self, alias: str, source: str) -> str:
        """Return a query of rows with the number of each among equal ones."""
        content = self._composite(alias, self.table.total_order)
        return (
            f"SELECT {self.database.row_id.format(alias)} AS id, {content} AS content, "
            f"{self._composite(alias, self.table.key)} AS same_key, "
            f"row_number() OVER (PARTITION BY {content}) AS place FROM {source}"
        )


def check_key(database: Database, table: Table, source: str) -> None:
    """Check that the rows of `source` can have the primary key of a table. Raises KeyViolation."""
    key = identifiers(table.primary_key)
    has_null = " OR ".join(f"{identifier(name)} IS NULL" for name in table.primary_key)
    faults = f"SELECT 1 FROM {source} GROUP BY {key} HAVING count(*) > 1 OR {has_null}"
    if database.number(f"SELECT count(*) FROM ({faults}) AS faults"):
        raise KeyViolation(table.name, KEY_PROBLEM)
