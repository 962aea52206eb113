"""Names and texts of the demo platform, with many scripts, emoji, quotes and line breaks. They are in `words.json`."""

from importlib.resources import files

import msgspec


class Locale(msgspec.Struct, frozen=True):
    """People and places of one country.

    `states` are (name, code, cities) triples; `phone_prefix` is the country's E.164 prefix with `+`, `phone_digits`
    the count of digits after it.
    """

    country: str
    country_code: str
    phone_prefix: str
    phone_digits: int
    weight: int
    female: tuple[str, ...]
    male: tuple[str, ...]
    family: tuple[str, ...]
    states: tuple[tuple[str, str | None, tuple[str, ...]], ...]


class _Words(msgspec.Struct, frozen=True):
    locales: tuple[Locale, ...]
    leader_kinds: tuple[str, ...]
    campaign_texts: tuple[str, ...]
    campaign_names: tuple[str, ...]
    canned_texts: tuple[tuple[str, str], ...]
    community_names: tuple[str, ...]
    custom_fields: tuple[tuple[str, tuple[str, ...]], ...]
    term_texts: tuple[str, ...]
    link_urls: tuple[str, ...]


WORDS = msgspec.json.decode(files(__package__).joinpath("words.json").read_bytes(), type=_Words)
