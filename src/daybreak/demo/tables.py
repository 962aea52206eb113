"""The thirteen source tables of the demo platform, as SQL over the plan tables."""

from dataclasses import dataclass
from math import gcd

from daybreak.demo.draws import Draws, instant_sql, text_list
from daybreak.demo.plan import MEMBER_BUCKET, MESSAGE_BUCKET, PlatformSizes, cities_of, drawn_locale, from_locale
from daybreak.demo.sms_segments import segment_count_sql
from daybreak.demo.words import WORDS
from daybreak.export.sql import literal

DAY_MICROS = 86_400_000_000
HOUR_MICROS = 3_600_000_000
HISTORY_DAYS = 400


@dataclass(frozen=True, slots=True)
class Tables:
    """SELECT statements of one platform. `as_of_micros` is in microseconds since 1970; some rows are later."""

    draws: Draws
    sizes: PlatformSizes
    as_of_micros: int

    def queries(self) -> dict[str, str]:
        """Return one SELECT statement per source table. They use only the plan tables."""
        return {
            "leaders": self._leaders(),
            "members": self._members(),
            "member_state_changes": self._member_state_changes(),
            "campaigns": self._campaigns(),
            "outbound_messages": self._outbound_messages(),
            "inbound_messages": self._inbound_messages(),
            "campaign_links": f"SELECT link_id, campaign_id, link_type, link_url FROM {self._links()}",
            "link_hits": self._link_hits(),
            "terms": self._terms(),
            "member_term_accepts": self._member_term_accepts(),
            "custom_field_values": self._custom_field_values(),
            "communities": f"SELECT community_id, leader_id, community_name FROM {self._community_rows()}",
            "community_memberships": self._community_memberships(),
        }

    # Row sources --------------------------------------------------------------------------------------------------

    def _shuffled(self, count: int) -> str:
        """Return every number below `count` once, unsorted: the step between them is coprime to `count`."""
        step = _coprime_step(count)
        return f"(SELECT ((range::HUGEINT * {step} + {count // 3}) % {max(1, count)})::BIGINT AS n FROM range({count}))"

    def _plain_members(self) -> str:
        """Return number, ids, state and activation of every Member, without the expensive name columns."""
        state, activated = (self.draws.share(f"member/{name}", "n") for name in ("state", "activated"))
        return f"""(
            SELECT n, {self.draws.uuid("member", "n")} AS member_id, leader_number, leader_id, locale,
                   CASE WHEN {state} < 0.82 THEN 'live' WHEN {state} < 0.95 THEN 'opted_out' WHEN {state} < 0.97 THEN 'blocked' ELSE 'deleted' END AS state,
                   ({self.as_of_micros} - {4 * 365 * DAY_MICROS} * pow({activated}, 1.5))::BIGINT AS activated_micros
            FROM {self._shuffled(self.sizes.members)} numbers
            JOIN plan_members p ON p.bucket = n // {MEMBER_BUCKET} AND n >= p.member_start AND n < p.member_end
            JOIN plan_leaders l USING (leader_number)
        )"""

    def _email(self) -> str:
        u = self.draws.share("member/email", "n")
        word = self.draws.one_of("member/email/word", "n", ("ana", "j.doe", "o'neil", "büro", "no-reply+sms", "x"))
        return f"CASE WHEN {u} < 0.14 THEN NULL WHEN {u} < 0.15 THEN '' ELSE {word} || '.' || n || '@example.org' END"

    # Tables -------------------------------------------------------------------------------------------------------

    def _leaders(self) -> str:
        u = self.draws.share("leader/billing", "leader_number")
        return f"""
            SELECT leader_id, leader_name, parent_leader_id,
                   CASE WHEN {u} < 0.3 THEN parent_leader_id WHEN {u} < 0.35 THEN leader_id END AS billing_entity_leader_id
            FROM plan_leaders ORDER BY leader_number
        """

    def _members(self) -> str:
        d = self.draws
        own = d.chance("member/local", "n", 0.85)
        locale = f"CASE WHEN {own} THEN locale ELSE {drawn_locale(d, 'member/locale', 'n')} END"
        female = from_locale(d, "member/first", "n", "home", lambda place: place.female)
        male = from_locale(d, "member/first", "n", "home", lambda place: place.male)
        family = from_locale(d, "member/last", "n", "home", lambda place: place.family)
        # One draw for all three: the city at a position is in the state at that position.
        cities = from_locale(d, "member/city", "n", "home", cities_of)
        states = from_locale(
            d, "member/city", "n", "home", lambda place: [name for name, _, cities in place.states for _ in cities]
        )
        codes = from_locale(
            d, "member/city", "n", "home", lambda place: [code for _, code, cities in place.states for _ in cities]
        )
        prefix = f"({text_list(place.phone_prefix for place in WORDS.locales)})[1 + home]"
        digits = f"({[place.phone_digits for place in WORDS.locales]!r}::BIGINT[])[1 + home]"
        known = d.share("member/known", "n")
        return f"""
            SELECT member_id, leader_id,
                   {prefix} || {d.below("member/phone/first", "n", 8)} + 2 || right('0000000000000' || {d.bits("member/phone", "n")}, {digits} - 1) AS phone_number,
                   state AS subscription_state,
                   CASE WHEN {known} < 0.08 THEN NULL WHEN {known} < 0.085 THEN '' WHEN woman THEN {female} ELSE {male} END AS first_name,
                   CASE WHEN {known} < 0.12 THEN NULL ELSE {family} END AS last_name,
                   {self._email()} AS email,
                   CASE WHEN {d.chance("member/birth/known", "n", 0.78)} THEN DATE '1932-02-29' + {d.below("member/birth", "n", 28_000)}::INTEGER END AS date_of_birth,
                   CASE WHEN {known} > 0.9 THEN NULL WHEN {known} > 0.88 THEN 'no_answer' WHEN {known} > 0.86 THEN 'non_binary'
                        WHEN woman THEN 'female' ELSE 'male' END AS gender,
                   CASE WHEN {known} < 0.7 THEN {cities} END AS city,
                   CASE WHEN {known} < 0.75 THEN {states} END AS state,
                   CASE WHEN {known} < 0.75 THEN {codes} END AS state_code,
                   CASE WHEN {known} < 0.97 THEN ({text_list(place.country for place in WORDS.locales)})[1 + home] END AS country,
                   CASE WHEN {known} < 0.97 THEN ({text_list(place.country_code for place in WORDS.locales)})[1 + home] END AS country_code,
                   {d.one_of("member/device", "n", ("iphone", "iphone", "android", "android", "other", None))} AS device_type,
                   CASE WHEN {d.chance("member/activation/known", "n", 0.97)} THEN {instant_sql("activated_micros")} END AS first_activated_at
            FROM (SELECT *, {locale} AS home, {d.chance("member/woman", "n", 0.52)} AS woman FROM {self._plain_members()})
        """

    def _member_state_changes(self) -> str:
        d = self.draws
        extra_changes = d.chance("member/wandered", "n", 0.1)
        # Gaps are a share of the time since activation, so that steps are ordered and before as_of.
        at = f"activated_micros + (({self.as_of_micros} - activated_micros) * step * {d.share('member/change', 'n')} / 4)::BIGINT + step"
        late = f"CASE WHEN step = steps AND {d.chance('member/change/late', 'n', 0.001)} THEN {self.as_of_micros} + {HOUR_MICROS} ELSE {at} END"
        return f"""
            SELECT member_id, leader_id,
                   CASE WHEN step = steps THEN state WHEN step % 2 = 0 THEN 'live' ELSE 'opted_out' END AS subscription_state,
                   {instant_sql(late)} AS state_changed_at
            FROM (
                SELECT *, unnest(range(steps + 1)) AS step
                FROM (SELECT *, CASE WHEN state = 'live' THEN 0 ELSE 1 END + CASE WHEN {extra_changes} THEN 2 ELSE 0 END AS steps FROM {self._plain_members()})
            )
        """

    def _campaign_sent(self) -> str:
        """Return when a campaign was sent, in microseconds. One in 200 is after as_of."""
        c = "campaign_number"
        ago = f"({HISTORY_DAYS * DAY_MICROS} * pow({self.draws.share('campaign/ago', c)}, 2))::BIGINT"
        late = f"{self.as_of_micros} + 1 + {self.draws.below('campaign/late/by', c, 6 * HOUR_MICROS)}"
        return (
            f"CASE WHEN {self.draws.chance('campaign/late', c, 0.005)} THEN {late} ELSE {self.as_of_micros} - {ago} END"
        )

    def _campaigns(self) -> str:
        d = self.draws
        c = "campaign_number"
        return f"""
            SELECT campaign_id, leader_id,
                   CASE WHEN {d.chance("campaign/named", c, 0.85)} THEN {d.one_of("campaign/name", c, WORDS.campaign_names)} || ' #' || {c} END AS campaign_name,
                   channel, usage_channel, text,
                   CASE WHEN has_media THEN 'https://media.example.org/' || {d.uuid("campaign/file", c)} || '.jpg' END AS media_url,
                   is_test, {d.chance("campaign/scheduled", c, 0.6)} AS is_scheduled, is_filtered, {instant_sql(self._campaign_sent())} AS sent_at
            FROM plan_campaigns ORDER BY {c}
        """

    def _campaign_messages(self, columns: str) -> str:
        """Return one row per campaign message: m (its number), member_number, and columns of the campaign."""
        j = "(m - c.message_start)"
        # One message in fifty is sent to the previous Member again, so that messages and recipients differ in number.
        j = f"({j} - CASE WHEN {j} > 0 AND {self.draws.chance('message/again', 'm', 0.02)} THEN 1 ELSE 0 END)"
        start = self.draws.below("campaign/first", "campaign_number", "c.members")
        # There are more numbers than campaign messages: the join drops the rest.
        return f"""(
            SELECT m, c.member_start + ({start} + {j}) % c.members AS member_number, {columns}
            FROM (SELECT n AS m FROM {self._shuffled(self.sizes.messages)}) numbers
            JOIN plan_messages p ON p.bucket = m // {MESSAGE_BUCKET} AND m >= p.message_start AND m < p.message_end
            JOIN (SELECT *, {segment_count_sql("text")} AS text_segments FROM plan_campaigns) c USING (campaign_number)
        )"""

    def _message_sent(self) -> str:
        return f"({self._campaign_sent()} + {self.draws.below('message/delay', 'm', 900_000_000)})"

    def _outbound_messages(self) -> str:
        d = self.draws
        campaign = self._campaign_messages("campaign_number, campaign_id, leader_id, usage_channel, text_segments")
        choice = d.below("message/canned", "m", len(WORDS.canned_texts))
        types = f"({text_list(kind for kind, _ in WORDS.canned_texts)})[1 + {choice}]"
        segments = f"[{', '.join(segment_count_sql(literal(text)) for _, text in WORDS.canned_texts)}][1 + {choice}]"
        ago = f"({HISTORY_DAYS * DAY_MICROS} * pow({d.share('message/ago', 'm')}, 2))::BIGINT"
        sent = f"CASE WHEN {d.chance('message/late', 'm', 0.001)} THEN {self.as_of_micros} + {HOUR_MICROS} ELSE {self.as_of_micros} - {ago} END"
        return f"""
            SELECT {d.uuid("message", "m")} AS message_id, leader_id, {d.uuid("member", "member_number")} AS member_id, campaign_id,
                   'campaign' AS outbound_message_type, usage_channel,
                   CASE usage_channel WHEN 'sms' THEN text_segments ELSE 1 END::BIGINT AS segment_count,
                   CASE usage_channel WHEN 'sms' THEN text_segments WHEN 'mms' THEN 3 ELSE 1 END::BIGINT AS unit_count,
                   {instant_sql(self._message_sent())} AS sent_at
            FROM {campaign}
            UNION ALL
            SELECT {d.uuid("message", "m")}, leader_id, {d.uuid("member", "member_number")}, NULL::UUID, {types}, 'sms',
                   {segments}, {segments}, {instant_sql(sent)}
            FROM (
                SELECT m, member_number, leader_id
                FROM (
                    SELECT range AS m, {d.below("message/member", "range", self.sizes.members)} AS member_number
                    FROM range((SELECT coalesce(max(message_end), 0) FROM plan_campaigns), {self.sizes.messages})
                ) numbers
                JOIN plan_members p ON p.bucket = member_number // {MEMBER_BUCKET} AND member_number >= p.member_start AND member_number < p.member_end
                JOIN plan_leaders l USING (leader_number)
            )
        """

    def _inbound_messages(self) -> str:
        d = self.draws
        campaign = self._campaign_messages("campaign_number, campaign_id, leader_id")
        answer = "m * 3 + answer"
        return f"""
            SELECT {d.uuid("inbound", answer)} AS message_id, leader_id, {d.uuid("member", "member_number")} AS member_id,
                   CASE WHEN {d.chance("inbound/matched", answer, 0.9)} THEN campaign_id END AS campaign_id,
                   {d.chance("inbound/stop", answer, 0.12)} AS is_stop,
                   {instant_sql(f"{self._message_sent()} + (90000000 * exp(7 * {d.share('inbound/delay', answer)}))::BIGINT")} AS received_at
            FROM (
                SELECT *, unnest(range(1 + {d.below("inbound/count", "m", 3)})) AS answer FROM {campaign} WHERE {d.chance("inbound/answers", "m", 0.04)}
            )
        """

    def _links(self) -> str:
        d = self.draws
        link = "(campaign_number * 3 + position)"
        # The second link of some campaigns repeats the first: same type and address, another link_id.
        url_of = f"(campaign_number * 3 + CASE WHEN {d.chance('link/twin', 'campaign_number', 0.1)} THEN 0 ELSE position END)"
        url = f"replace({d.one_of('link/url', url_of, WORDS.link_urls)}, '{{n}}', ({url_of})::VARCHAR)"
        return f"""(
            SELECT {d.uuid("link", link)} AS link_id, campaign_id, {link} AS link_number, audience, campaign_number,
                   CASE WHEN has_media AND {d.chance("link/media", url_of, 0.6)} THEN 'media' ELSE 'link' END AS link_type, {url} AS link_url
            FROM (
                SELECT *, unnest(range(1 + {d.below("campaign/links", "campaign_number", 3)})) AS position
                FROM plan_campaigns WHERE {d.chance("campaign/linked", "campaign_number", 0.45)}
            )
            ORDER BY link_number
        )"""

    def _link_hits(self) -> str:
        d = self.draws
        hit = "(link_number * 100000000 + hit)"
        member = f"(member_start + {d.below('hit/member', hit, 'greatest(members, 1)')})"
        at = f"{self._campaign_sent()} + (60000000 * exp(9 * {d.share('hit/delay', hit)}))::BIGINT"
        return f"""
            SELECT link_id, CASE WHEN {d.chance("hit/known", hit, 0.9)} THEN {d.uuid("member", member)} END AS member_id, {instant_sql(at)} AS hit_at
            FROM (
                SELECT links.*, plan_campaigns.member_start, plan_campaigns.members,
                       unnest(range((links.audience * 0.25 * pow({d.share("link/hits", "link_number")}, 2))::BIGINT)) AS hit
                FROM {self._links()} links JOIN plan_campaigns USING (campaign_number)
            )
        """

    def _term_count(self) -> int:
        return max(4, self.sizes.leaders // 3)

    def _terms(self) -> str:
        texts: tuple[str | None, ...] = (*WORDS.term_texts, None)
        return f"""
            SELECT {self.draws.uuid("term", "range")} AS term_id, {self.draws.one_of("term/language", "range", texts)} AS term_language,
                   {self.draws.one_of("term/signup", "range", texts)} AS custom_signup_language,
                   {self.draws.one_of("term/checkbox", "range", (*texts, None, None))} AS additional_checkbox_language
            FROM range({self._term_count()})
        """

    def _member_term_accepts(self) -> str:
        d = self.draws
        accept = "(n * 2 + accept)"
        edge = d.below("accept/edge", accept, 1000)
        window = 90 * DAY_MICROS
        at = f"""CASE {edge} WHEN 0 THEN {self.as_of_micros} WHEN 1 THEN {self.as_of_micros + 1} WHEN 2 THEN {self.as_of_micros - window}
                 WHEN 3 THEN {self.as_of_micros - window - 1} WHEN 4 THEN {self.as_of_micros - window + 1}
                 ELSE {self.as_of_micros} - {d.below("accept/ago", accept, 200 * DAY_MICROS)} END"""
        return f"""
            SELECT member_id, leader_id, {d.uuid("term", f"(leader_number + accept * {d.below('accept/other', 'n', 2)}) % {self._term_count()}")} AS term_id,
                   {self._email()} AS member_email,
                   CASE WHEN {d.chance("accept/country", "n", 0.9)} THEN ({text_list(place.country_code for place in WORDS.locales)})[1 + locale] END AS member_country_code,
                   {d.chance("accept/checked", accept, 0.93)} AS was_checked, {d.chance("accept/pre", accept, 0.2)} AS was_pre_checked,
                   {instant_sql(at)} AS accepted_at
            FROM (
                SELECT *, unnest(range(1 + ({d.chance("accept/twice", "n", 0.15)})::BIGINT)) AS accept
                FROM {self._plain_members()} WHERE {d.chance("accept/any", "n", 0.45)}
            )
        """

    def _custom_field_values(self) -> str:
        d = self.draws
        value = "(n * 5 + position)"
        branches = " ".join(
            f"WHEN {number} THEN {d.one_of('field/value', value, values)}"
            for number, (_, values) in enumerate(WORDS.custom_fields)
        )
        return f"""
            SELECT member_id, leader_id, ({text_list(name for name, _ in WORDS.custom_fields)})[1 + field] AS custom_field_name,
                   CASE WHEN {d.chance("field/null", value, 0.05)} THEN NULL ELSE CASE field {branches} END END AS custom_field_value
            FROM (
                SELECT *, ({d.below("field/first", "n", len(WORDS.custom_fields))} + position) % {len(WORDS.custom_fields)} AS field
                FROM (
                    SELECT *, unnest(range(1 + {d.below("field/count", "n", 3)})) AS position
                    FROM {self._plain_members()} WHERE {d.chance("field/any", "n", 0.35)}
                )
            )
        """

    def _community_count(self) -> str:
        many = f"1 + floor(log2(members + 1) / 3 * (0.5 + {self.draws.share('leader/communities', 'leader_number')}))"
        return f"least({len(WORDS.community_names)}, {many})::BIGINT"

    def _community_id(self) -> str:
        return self.draws.uuid("community", f"leader_number * {len(WORDS.community_names)} + position")

    def _community_rows(self) -> str:
        name = f"({text_list(WORDS.community_names)})[1 + (leader_number + position) % {len(WORDS.community_names)}]"
        return f"""(
            SELECT {self._community_id()} AS community_id, leader_id, {name} AS community_name
            FROM (SELECT *, unnest(range({self._community_count()})) AS position FROM plan_leaders)
            ORDER BY leader_number, position
        )"""

    def _community_memberships(self) -> str:
        d = self.draws
        first = "(n * 2 + spot)"
        # The last of several communities of a Leader stays empty.
        joinable = f"greatest(1, {self._community_count()} - 1)"
        joined = f"(activated_micros + (({self.as_of_micros} - activated_micros) * {d.share('community/joined', first)} * 0.5)::BIGINT)"
        gap = f"(({self.as_of_micros} - activated_micros) / 8 + stay)::BIGINT"
        outcome = d.share("community/fate", first)
        return f"""
            SELECT {self._community_id()} AS community_id, member_id,
                   {instant_sql(f"CASE WHEN {outcome} > 0.998 THEN {self.as_of_micros} + {HOUR_MICROS} ELSE joined_micros + 2 * stay * gap END")} AS joined_at,
                   CASE WHEN {outcome} < 0.01 THEN {instant_sql(f"{self.as_of_micros} + {DAY_MICROS}")}
                        WHEN {outcome} < 0.012 THEN {instant_sql(str(self.as_of_micros))}
                        WHEN {outcome} < 0.25 OR stay < stays - 1 THEN {instant_sql("joined_micros + (2 * stay + 1) * gap")} END AS left_at
            FROM (
                SELECT *, {joined} AS joined_micros, {gap} AS gap
                FROM (
                    SELECT *, unnest(range(stays)) AS stay
                    FROM (
                        SELECT *, CASE WHEN {d.chance("community/again", first, 0.1)} THEN 2 ELSE 1 END AS stays,
                               ({d.below("community/first", "n", "joinable")} + spot) % joinable AS position
                        FROM (
                            SELECT *, unnest(range(least(joinable, 1 + {d.below("community/spots", "n", 2)}))) AS spot
                            FROM (
                                SELECT members_with.*, {joinable} AS joinable
                                FROM {self._plain_members()} members_with JOIN (SELECT leader_number, members FROM plan_leaders) USING (leader_number)
                                WHERE {d.chance("community/any", "n", 0.55)}
                            )
                        )
                    )
                )
            )
        """


def _coprime_step(count: int) -> int:
    """Return a step that is coprime to `count`, near its golden ratio."""
    step = max(1, int(count * 0.6180339887))
    while gcd(step, count) != 1:
        step += 1
    return step
