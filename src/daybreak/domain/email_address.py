"""The one rule for email addresses, applied wherever an address enters: directory, forms, sign-in, settings.

Stricter than RFC 5322: no quoted local parts, comments, display names, address literals or encoded words, which header
parsers and mail servers read in different ways. `ana,victim@example.org` is two recipients to some of them. Letters of
any script are valid (RFC 6531), and local parts over 64 characters, which some servers accept.
"""

import unicodedata

from daybreak.domain.visible_text import INVISIBLE_CHARACTERS, VARIATION_SELECTORS

MAX_EMAIL_LENGTH = 254
"""Maximum number of characters of an email (RFC 5321 §4.5.3.1)."""
MAX_EMAIL_INPUT_LENGTH = 2 * MAX_EMAIL_LENGTH
"""The same before normalization, where an accented letter may be two characters."""
EMAIL_EXAMPLE = "maya@example.org"
_MAX_LABEL_LENGTH = 63
# `atext` of RFC 5322 §3.2.3, without letters and digits.
_ATOM_SPECIALS = frozenset("!#$%&'*+-/=?^_`{|}~")


def is_email_address(text: str) -> bool:
    """Return whether a text is one email address: a dot-atom, `@`, and a host name, which may be of a private network
    (`ana@intranet`).
    """
    # A local part may be an encoded word (RFC 2047 §2), which parsers of mails decode: to line breaks, for example.
    if len(text) > MAX_EMAIL_INPUT_LENGTH or "=?" in text:
        return False
    if INVISIBLE_CHARACTERS.search(text) or VARIATION_SELECTORS.search(text):
        return False
    local, _, domain = unicodedata.normalize("NFC", text).rpartition("@")
    labels = domain.split(".")
    return (
        len(local) + 1 + len(domain) <= MAX_EMAIL_LENGTH
        and all(_consists_of(atom, _ATOM_SPECIALS) for atom in local.split("."))
        and all(_is_label(label) for label in labels)
        and not labels[-1].isdigit()
    )


def _is_label(label: str) -> bool:
    ends = label[:1] + label[-1:]
    return len(label) <= _MAX_LABEL_LENGTH and "-" not in ends and _consists_of(label, frozenset("-"))


def _consists_of(text: str, specials: frozenset[str]) -> bool:
    """Return whether a text has characters, and only letters, digits, their combining marks, and `specials`."""
    return bool(text) and all(
        character in specials
        or (character.isalnum() if character.isascii() else unicodedata.category(character)[0] in "LMN")
        for character in text
    )
