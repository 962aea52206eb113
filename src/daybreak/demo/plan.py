"""Plan tables of the demo platform: which Leader or campaign owns which row numbers.

Members and campaign messages are row numbers. A Leader owns a range of Member numbers, a campaign a range of message
numbers. A join on `number // bucket` with a small plan table finds the owner. It streams, so the large tables are
neither sorted nor kept in memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daybreak.demo.draws import Draws, number_list, text_list
from daybreak.demo.words import WORDS, Locale

MEMBER_BUCKET = 64
MESSAGE_BUCKET = 256
SKEW = 1.4
"""Exponent of the Zipf distribution of Leader sizes. The largest 5 % of 5,000 Leaders have 90 % of the rows."""
CAMPAIGN_SHARE = 0.75
"""Share of outbound messages that belong to a campaign."""


@dataclass(frozen=True, slots=True)
class PlatformSizes:
    """Number of rows to generate. `messages` counts outbound messages. With a `skew` of 0, Leaders have one size."""

    leaders: int = 40
    members: int = 200_000
    messages: int = 1_000_000
    skew: float = SKEW


def drawn_locale(draws: Draws, name: str, row: str) -> str:
    """Return a locale number, weighted by the size of the country."""
    weighted = [number for number, locale in enumerate(WORDS.locales) for _ in range(locale.weight)]
    return f"({number_list(weighted)})[1 + {draws.below(name, row, len(weighted))}]"


def from_locale(
    draws: Draws, name: str, row: str, locale: str, texts_of: Callable[[Locale], Sequence[str | None]]
) -> str:
    """Return one of the texts of the locale whose number is the SQL expression `locale`."""
    per_locale = [texts_of(each) for each in WORDS.locales]
    flat = [text for texts in per_locale for text in texts]
    starts = [sum(len(texts) for texts in per_locale[:number]) for number in range(len(per_locale))]
    start = f"({number_list(starts)})[1 + {locale}]"
    size = f"({number_list(len(texts) for texts in per_locale)})[1 + {locale}]"
    return f"({text_list(flat)})[1 + {start} + {draws.below(name, row, size)}]"


def cities_of(locale: Locale) -> list[str]:
    """Return the cities of all states of a locale."""
    return [city for _, _, cities in locale.states for city in cities]


def make_plan(draws: Draws, sizes: PlatformSizes) -> list[str]:
    """Return the statements that create `plan_leaders`, `plan_members`, `plan_campaigns` and `plan_messages`.

    The tables are small: one row per Leader, campaign or bucket. Sums are integers, so their order does not matter.
    """
    return [
        _leaders(draws, sizes),
        _buckets("member", "leader", MEMBER_BUCKET),
        _campaigns(draws, sizes),
        _buckets("message", "campaign", MESSAGE_BUCKET),
    ]


def _leaders(draws: Draws, sizes: PlatformSizes) -> str:
    row = "leader_number"
    place = from_locale(draws, "leader/place", row, "locale", cities_of)
    family = from_locale(draws, "leader/family", row, "locale", lambda locale: locale.family)
    # The last Leader of a platform with ten or more has no Members, so its files have only a header.
    empty = sizes.leaders - 1 if sizes.leaders >= 10 else -1
    return f"""
        CREATE TABLE plan_leaders AS
        WITH weights AS (
            SELECT range AS leader_number,
                   CASE WHEN range = {empty} THEN 0 ELSE (1e12 / pow(range + 1, {sizes.skew!r}))::BIGINT END::HUGEINT AS weight,
                   {drawn_locale(draws, "leader/locale", "range")} AS locale
            FROM range({sizes.leaders})
        ), sums AS (
            SELECT *, sum(weight) OVER (ORDER BY leader_number ROWS UNBOUNDED PRECEDING)::HUGEINT AS until,
                   sum(weight) OVER ()::HUGEINT AS total
            FROM weights
        )
        SELECT leader_number, {draws.uuid("leader", row)} AS leader_id, locale,
               replace(replace({draws.one_of("leader/kind", row, WORDS.leader_kinds)}, '{{place}}', {place}), '{{family}}', {family}) AS leader_name,
               CASE WHEN leader_number > 0 AND {draws.chance("leader/child", row, 0.55)}
                    THEN {draws.uuid("leader", draws.below("leader/parent", row, "(leader_number + 3) // 4"))} END AS parent_leader_id,
               ({sizes.members} * (until - weight) // total)::BIGINT AS member_start,
               ({sizes.members} * until // total)::BIGINT AS member_end,
               member_end - member_start AS members
        FROM sums ORDER BY leader_number
    """


def _campaigns(draws: Draws, sizes: PlatformSizes) -> str:
    per_member = CAMPAIGN_SHARE * sizes.messages / max(1, sizes.members)
    mean_campaigns = max(3.0, per_member / 0.45)
    reach = min(1.0, per_member / mean_campaigns)
    row = "campaign_number"
    # Large Leaders send more campaigns, each to a smaller part of their audience.
    return f"""
        CREATE TABLE plan_campaigns AS
        WITH counts AS (
            SELECT *, CASE WHEN members = 0 THEN 0
                           ELSE 1 + floor({mean_campaigns!r} * activity * (0.5 + {draws.share("leader/campaigns", "leader_number")}))::BIGINT
                      END AS campaigns
            FROM (SELECT *, round(1 + log10(1 + members), 2) AS activity FROM plan_leaders)
        ), starts AS (
            SELECT *, (sum(campaigns) OVER (ORDER BY leader_number ROWS UNBOUNDED PRECEDING) - campaigns)::BIGINT AS campaign_start
            FROM counts
        ), each AS (
            SELECT *, campaign_start + unnest(range(campaigns)) AS campaign_number FROM starts
        ), planned AS (
            SELECT *, {draws.chance("campaign/test", row, 0.03)} AS is_test, {draws.chance("campaign/filtered", row, 0.02)} AS is_filtered,
                   {draws.chance("campaign/whatsapp", row, 0.08)} AS is_whatsapp, {draws.chance("campaign/media", row, 0.18)} AS has_media,
                   CASE WHEN {draws.chance("campaign/unsent", row, 0.04)} THEN 0
                        WHEN {draws.chance("campaign/test", row, 0.03)} THEN least(3, members)
                        ELSE least(members, 1 + floor(members * {reach!r} / activity * 3 * pow({draws.share("campaign/reach", row)}, 2))::BIGINT) END AS planned,
                   CASE WHEN NOT ({draws.chance("campaign/media", row, 0.18)} AND {draws.chance("campaign/silent", row, 0.1)})
                        THEN replace({draws.one_of("campaign/text", row, WORDS.campaign_texts)}, '{{leader}}', leader_name) END AS text
            FROM each
        ), summed AS (
            SELECT *, sum(planned) OVER (ORDER BY campaign_number ROWS UNBOUNDED PRECEDING)::BIGINT AS planned_until FROM planned
        ), cut AS (
            SELECT *, CASE WHEN planned_until > {int(sizes.messages * 0.9)} THEN 0 ELSE planned END AS audience FROM summed
        )
        SELECT campaign_number, {draws.uuid("campaign", row)} AS campaign_id, leader_number, leader_id, member_start, members,
               is_test, is_filtered, has_media, text,
               CASE WHEN is_whatsapp THEN 'whatsapp' ELSE 'sms' END AS channel,
               CASE WHEN is_whatsapp THEN 'whatsapp' WHEN has_media THEN 'mms' ELSE 'sms' END AS usage_channel,
               audience, (sum(audience) OVER (ORDER BY campaign_number ROWS UNBOUNDED PRECEDING))::BIGINT AS message_end,
               message_end - audience AS message_start
        FROM cut ORDER BY campaign_number
    """


def _buckets(item: str, owner: str, size: int) -> str:
    number, start, end = f"{owner}_number", f"{item}_start", f"{item}_end"
    return f"""
        CREATE TABLE plan_{item}s AS
        SELECT unnest(range({start} // {size}, ({end} - 1) // {size} + 1)) AS bucket, {number}, {start}, {end}
        FROM plan_{owner}s WHERE {end} > {start} ORDER BY {number}, bucket
    """
