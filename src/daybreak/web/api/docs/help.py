"""Questions and answers of the help page. Texts between `backticks` are code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daybreak.settings import Settings
from daybreak.settings.text_forms import duration_in_words, format_size


@dataclass(frozen=True, slots=True)
class Answer:
    """One question with its answer. `code` is the error code that the question is about."""

    anchor: str
    question: str
    text: str
    code: str = ""


def help_topics(settings: Settings) -> Mapping[str, Sequence[Answer]]:
    """Return the answers by topic, with the values of this service."""
    return {
        "Files": _about_files(settings),
        "Access": _about_access(settings),
        "Downloads": _about_downloads(settings),
        "Dashboard": _about_the_dashboard(settings),
    }


def _about_files(settings: Settings) -> Sequence[Answer]:
    publish_time = f"{settings.snapshot.publish_at:%H:%M} UTC"
    kept = settings.snapshot.keep
    return (
        Answer(
            "new-files",
            "When are new files published?",
            f"Every day at {publish_time}. All nine files of a day come from one consistent read of the data. The "
            "Files page shows how old they are and when the next ones are expected.\n\n"
            "`daybreak fetch exports --wait 2h` waits for the files of the day. A webhook or a mail can report "
            "them instead of a request at intervals.",
        ),
        Answer(
            "late-files",
            "The files are late. What can I do?",
            "Nothing: the previous files stay available, and the dashboard shows the reason and the next attempt. "
            "A snapshot with suspicious rows waits for a decision of the operator.",
        ),
        Answer(
            "no-value",
            "How do I recognize a missing value?",
            'A missing value (NULL) is an empty cell in CSV and `null` in JSON. An empty text is `""` in both. '
            "`daybreak_client.read` and the programs that `daybreak types` prints keep the types of all columns.",
        ),
        Answer(
            "earlier-files",
            "Can I download the files of an earlier day?",
            f"Choose the day on the Files page. The service keeps {kept} snapshots. For what changed between two "
            "days, use the deltas.",
        ),
        Answer(
            "spreadsheet",
            "How do I open a file in a spreadsheet?",
            "Choose Excel on the Files page. Phone numbers keep their plus sign, and ids keep their zeros. A large "
            "file is a CSV file, in which texts that a spreadsheet would evaluate as formulas begin with an "
            "apostrophe. Import its phone numbers and ids as text.",
        ),
    )


def _about_access(settings: Settings) -> Sequence[Answer]:
    contact = settings.operator_contact or "your operator"
    return (
        Answer(
            "no-token",
            "I cannot create an API token.",
            "It needs API tokens enabled for the account, and Data Export and Async REST API for your seat. The "
            f"page API tokens names what is missing. Ask {contact} for it.",
            "async_rest_api_required",
        ),
        Answer(
            "token-refused",
            "My token is refused with status 401.",
            "It was revoked, has expired or was copied incompletely: a token is `service_api_` and 38 letters and "
            "digits. Its state is on the page API tokens. Create a new token there.",
            "invalid_token",
        ),
        Answer(
            "address-not-allowed",
            "My token is refused because of its address.",
            "The token is limited to other addresses. The error names the address of the request. Add it on the "
            "page of the token, or send requests from an allowed address.",
            "address_not_allowed",
        ),
        Answer(
            "foreign-account",
            "I get `not_your_account`.",
            "The id in the URL is not the account of the token. An API token belongs to one account. With a "
            "session token, switch to the account first.",
            "not_your_account",
        ),
        Answer(
            "lost-phone",
            "I have lost my phone with the authenticator app.",
            "Enter one of your recovery codes in place of the six-digit code. Without recovery codes, ask "
            f"{contact} to reset your second factor.",
        ),
    )


def _about_downloads(settings: Settings) -> Sequence[Answer]:
    lifetime, rate = duration_in_words(settings.access.link_lifetime), settings.access.link_rate
    return (
        Answer(
            "expired-link",
            "My link has expired.",
            f"A link works for {lifetime}. Do not store links: request the file again, and follow the redirect. A "
            "download that has begun continues after that time.",
            "link_expired",
        ),
        Answer(
            "interrupted",
            "How do I resume an interrupted download?",
            "Send the number of received bytes in the header `Range`, and the `ETag` in `If-Range`. `daybreak "
            "fetch` does so itself.",
        ),
        Answer(
            "intact",
            "How do I check that a file is complete?",
            "Compare its SHA-256 with the one in the list of files. `daybreak fetch` does so itself.",
        ),
        Answer(
            "too-many",
            "I get status 429.",
            f"A token gets at most {rate.attempts:,} links in {duration_in_words(rate.window)}, and "
            f"{format_size(settings.access.daily_bytes)} in 24 hours. Wait the seconds in the header `Retry-After`. "
            "Use the list of files to find out which files have changed.",
            "rate_limited",
        ),
    )


def _about_the_dashboard(settings: Settings) -> Sequence[Answer]:
    idle = duration_in_words(settings.access.dashboard_idle)
    return (
        Answer(
            "signed-out",
            "Why was I signed out?",
            f"A session ends after {idle} without activity, when your password changes, and when you end it.",
        ),
        Answer(
            "keyboard",
            "Which keys does the dashboard have?",
            "`Ctrl K` (`⌘ K` on a Mac) opens the search for accounts, pages and files. The arrow keys select, "
            "`Enter` opens, and `Esc` closes.",
        ),
    )
