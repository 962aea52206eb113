"""Redaction of the service's own secrets in texts that are logged, stored or shown.

Secrets are recognized by their form: API tokens, secrets of webhooks, tokens in links of mails, JSON Web Tokens,
signatures of links, signed cookies and form tokens, recovery codes, keys of authenticator apps, and passwords in URLs.
Clients put them into paths, User-Agent headers and names by mistake, plain or percent-encoded.

Every pattern takes linear time: it begins with a literal, and no repetition is followed by one that could match the
same characters.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

MARK = "[redacted]"
# Proxies and scripts encode a URL inside a URL, rarely more than twice.
_MAX_ENCODINGS = 4
# Encoded printable ASCII. Decoding never creates a control character.
_ENCODED = re.compile(r"%([2-6][0-9A-Fa-f]|7[0-9A-Ea-e])")
_RECOVERY_GROUP = "[2-9a-km-np-zA-KM-NP-Z]{4}"
_RECOVERY_END = rf"-(?<=(?<![\w-]){_RECOVERY_GROUP}-){_RECOVERY_GROUP}(?:-{_RECOVERY_GROUP}){{2,}}(?![\w-])"
# A text that occurs in every match, the pattern, and the replacement. Cut secrets match too.
_FORMS = (
    ("whsec_", re.compile(r"whsec_[\w+/=]+", re.ASCII), MARK),
    ("reset_", re.compile(r"reset_[\w-]{43}", re.ASCII), MARK),
    ("service_api_", re.compile(r"service_api_\w+", re.ASCII), MARK),
    # Base64 of `{"`, with which every JSON Web Token begins.
    ("eyJ", re.compile(r"eyJ[\w-]{8}[\w.-]*", re.ASCII), MARK),
    ("signature", re.compile(r"signature\W{1,4}[0-9A-Fa-f]{8,}", re.ASCII), MARK),
    # The end of `kid.payload.mac` and of an encrypted key of an authenticator app.
    (".", re.compile(r"\.(?<=[0-9a-f-]\.)[0-9a-f]{32,}", re.ASCII), f".{MARK}"),
    # The end of the token that unsubscribes a seat, which is in the path.
    ("~", re.compile(r"~[0-9a-f]{32,}", re.ASCII), f"~{MARK}"),
    # All groups of a recovery code after the first.
    ("-", re.compile(_RECOVERY_END, re.ASCII), f"-{MARK}"),
    ("secret=", re.compile(r"secret=[2-7A-Za-z]{16,}", re.ASCII), f"secret={MARK}"),
    ("://", re.compile(r"://([^\s/:@]*):[^\s/@]+@", re.ASCII), rf"://\1:{MARK}@"),
)  # fmt: skip


def redact(text: str) -> str:
    """Return the text with every secret replaced by `[redacted]`.

    A text with a percent-encoded secret is returned decoded.
    """
    if "%" in text:
        decoded = _decode(text)
        redacted = _redact_plain(decoded)
        if redacted != decoded:
            return redacted
    return _redact_plain(text)


def contains_secret(text: str) -> bool:
    """Return whether a text contains a secret, plain or percent-encoded."""
    return redact(text) != text


def redact_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with secrets replaced, also in nested lists and mappings.

    Values that have no JSON form become text.
    """
    texts = "\n".join([value for value in values.values() if type(value) is str])
    # One search of all texts takes less time than one of each, and few contain a secret.
    clean = not contains_secret(texts)
    return {name: value if clean and type(value) is str else _redact_value(value) for name, value in values.items()}


def _redact_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | datetime):
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return redact_values(value)
    if isinstance(value, list | tuple):
        return [_redact_value(each) for each in value]
    return redact(repr(value))


def _decode(text: str) -> str:
    for _ in range(_MAX_ENCODINGS):
        decoded = _ENCODED.sub(lambda encoded: chr(int(encoded[1], 16)), text)
        if decoded == text:
            break
        text = decoded
    return text


def _redact_plain(text: str) -> str:
    for literal, pattern, replacement in _FORMS:
        if literal in text:
            text = pattern.sub(replacement, text)
    return text
