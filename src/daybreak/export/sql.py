"""SQL quoting. Every name and text that becomes part of a statement passes through here."""


def identifier(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as an SQL string constant."""
    return "'" + text.replace("'", "''") + "'"
