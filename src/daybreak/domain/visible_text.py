"""Characters that a reader does not see, or that reorder the text around them.

Where one person chooses a text that another reads, such as a name or a URL, they are refused, removed or shown as
visible ones. Emails contain none. Letters of different scripts that look alike are valid: pages show the email or the
id next to a name.
"""

import re
import unicodedata

# Ignorable characters (UAX 44, Default_Ignorable_Code_Point), without those that change visible ones: joiners, which
# Persian and emoji need, and variation selectors.
_INVISIBLE = (
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff"
)
INVISIBLE_CHARACTERS = re.compile(f"[{_INVISIBLE}]+")
VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
HIDDEN_CHARACTERS = re.compile(
    f"[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff{_INVISIBLE}]+"
)
"""Invisible characters, control characters, line separators, bidirectional controls (UAX 9) and lone surrogates."""


def is_visible(text: str) -> bool:
    """Return whether a text has a letter, digit, punctuation mark or symbol that a reader sees."""
    return any(unicodedata.category(each)[0] in "LNPS" for each in INVISIBLE_CHARACTERS.sub("", text))
