"""What an operator is told of an error: the message, the fields at fault, and what lies behind a part that is away."""

from daybreak.domain.errors import DaybreakError, InvalidRequest, Unavailable

# Where what is away is named.
_SETTINGS = {"state_unavailable": "state.url: "}


def told(error: DaybreakError | OSError) -> str:
    """Text of one or more lines. Users get the message alone; the cause is for who runs the service."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    text = error.message
    if isinstance(error, InvalidRequest):
        text += "".join(f"\n  {fault.pointer}: {fault.detail}" for fault in error.faults)
    cause = error.__cause__
    if isinstance(error, Unavailable) and cause is not None:
        # What the database's driver said, without the statement and the advice that wrap it.
        said = str(getattr(cause, "orig", None) or cause).strip()
        text += f"\n  {_SETTINGS.get(error.code, '')}{said.splitlines()[0] if said else type(cause).__name__}"
    return text
