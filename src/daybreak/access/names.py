"""Names that users choose for API tokens and passkeys."""

import unicodedata

from daybreak.credentials.redaction import contains_secret
from daybreak.domain.errors import FieldFault, InvalidRequest
from daybreak.domain.visible_text import HIDDEN_CHARACTERS, is_visible

MAX_NAME_LENGTH = 80


def normalize_name(name: str, *, subject: str) -> str:
    """Return a name in Unicode form NFC, without spaces around it.

    Raises InvalidRequest for an empty or long name, or one with hidden characters or a secret. The message begins with
    `subject`, such as `A token name`.
    """
    # Cut first, because normalization takes quadratic time in a run of combining marks.
    normalized = unicodedata.normalize("NFC", name[: 4 * MAX_NAME_LENGTH + 1]).strip()
    if len(normalized) > MAX_NAME_LENGTH or HIDDEN_CHARACTERS.search(normalized) or not is_visible(normalized):
        raise InvalidRequest(
            f"{subject} has 1 to {MAX_NAME_LENGTH} characters, and no hidden ones such as line breaks.",
            faults=(
                FieldFault("/name", f"Use 1 to {MAX_NAME_LENGTH} characters, and no hidden ones such as line breaks."),
            ),
        )
    if contains_secret(normalized):
        raise InvalidRequest(
            "The name looks like a secret, such as a token or a recovery code. Use another name.",
            faults=(FieldFault("/name", "Use a name that contains no secret."),),
        )
    return normalized
