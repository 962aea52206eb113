"""Description of errors for operators: the message, invalid fields, and the cause of an unavailable component."""

from daybreak.domain.errors import DaybreakError, InvalidRequest, Unavailable, first_line

# The setting that names an unavailable component.
_SETTINGS = {"state_unavailable": "state.url: "}


def describe_error(error: DaybreakError | OSError) -> str:
    """Return one or more lines. They include the cause, which users of the service never see."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    text = error.message
    if isinstance(error, InvalidRequest):
        text += "".join(f"\n  {fault.pointer}: {fault.detail}" for fault in error.faults)
    cause = error.__cause__
    if isinstance(error, Unavailable) and cause is not None:
        # The database driver's own message, if there is one.
        text += f"\n  {_SETTINGS.get(error.code, '')}{first_line(getattr(cause, 'orig', None) or cause)}"
    return text
