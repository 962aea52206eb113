"""Commands and programs that make a first request with an API token, ready to paste.

They read the token from the environment or from a private file: every user of a machine can list the arguments of its
processes, and shells store what was typed. The token is entered at a prompt.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from operator import attrgetter
from urllib.parse import urlsplit

from daybreak.catalogue.formats import Format
from daybreak.catalogue.resources import Resource, resource_named
from daybreak.settings import Settings
from daybreak.web.api.examples import (
    ENTER_TOKEN_COMMAND,
    HEADER_FILE,
    VARIABLE,
    download_command,
    file_url,
    sample_format,
    save_token_command,
)

DATABASE = "daybreak.duckdb"
"""Database file that the example of `daybreak sync` creates."""


@dataclass(frozen=True, slots=True)
class Step:
    """Text to paste, with a title and an explanation."""

    title: str
    text: str
    note: str = ""


class Door(StrEnum):
    """How a tool reaches the tables. The value is the setting that enables it, empty for downloads."""

    DOWNLOADS = ""
    SHARING = "sharing.enabled"
    S3 = "attach.s3"
    ICEBERG = "attach.iceberg"

    def is_open(self, settings: Settings) -> bool:
        """Return whether the service has it enabled."""
        return not self or bool(attrgetter(self)(settings))


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps in one tool or language. `key` is part of ids in pages. `tested`: a test runs them against a service."""

    key: str
    title: str
    door: Door
    steps: tuple[Step, ...]
    tested: bool = False


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """One file of one account on this service."""

    base_url: str
    client_id: str
    resource: Resource
    file_format: Format

    @property
    def url(self) -> str:
        """URL of the newest file."""
        return file_url(self.base_url, self.client_id, self.resource, self.file_format)

    @property
    def file_name(self) -> str:
        return self.resource.file_name(self.file_format)

    @property
    def is_csv(self) -> bool:
        """Whether programs can read the file as CSV."""
        return self.file_format.name == "csv"

    def examples(self) -> tuple[Recipe, ...]:
        return (
            Recipe("curl", "curl", Door.DOWNLOADS, (ENTER_TOKEN, SAVE_HEADER, self._curl())),
            Recipe("python", "Python", Door.DOWNLOADS, (ENTER_TOKEN, self._python())),
            Recipe("r", "R", Door.DOWNLOADS, (ENTER_TOKEN, self._r())),
            Recipe("duckdb", "DuckDB", Door.DOWNLOADS, (ENTER_TOKEN, SAVE_HEADER, self._curl(), self._duckdb())),
            Recipe("powershell", "PowerShell", Door.DOWNLOADS, (_ENTER_TOKEN_IN_POWERSHELL, self._powershell())),
            Recipe("sync", "daybreak sync", Door.DOWNLOADS, (ENTER_TOKEN, *self._client())),
        )

    def _curl(self) -> Step:
        return Step("Download a file", download_command(self.url, self.file_name))

    def _python(self) -> Step:
        text = f"""\
import os
import shutil
import urllib.request

url = {json.dumps(self.url)}
token = os.environ["{VARIABLE}"]
request = urllib.request.Request(url)
# Not sent to the target of a redirect.
request.add_unredirected_header("Authorization", f"Bearer {{token}}")
with urllib.request.urlopen(request) as response:
    with open("{self.file_name}", "wb") as file:
        shutil.copyfileobj(response, file)"""
        return Step("Download a file", text, "Uses only the standard library.")

    def _r(self) -> Step:
        text = f"""\
download.file(
  {json.dumps(self.url)},
  "{self.file_name}", mode = "wb", method = "libcurl",
  headers = c(Authorization = paste("Bearer", Sys.getenv("{VARIABLE}")))
)"""
        if not self.is_csv:
            return Step("Download a file", text)
        variable = self.resource.name
        text += f'\n{variable} <- read.csv("{self.file_name}", na.strings = "", encoding = "UTF-8")\nstr({variable})'
        return Step("Download and read a file", text)

    def _duckdb(self) -> Step:
        text = f"import duckdb\n\nprint(duckdb.sql(\"SUMMARIZE FROM '{self.file_name}'\"))"
        return Step("Query the file in Python", text, "Requires pip install duckdb.")

    def _powershell(self) -> Step:
        text = f"""\
$headers = @{{ Authorization = "Bearer $env:{VARIABLE}" }}
Invoke-WebRequest -Headers $headers -OutFile {self.file_name} `
  -Uri '{self.url}'"""
        return Step("Download a file", text)

    def _client(self) -> tuple[Step, Step, Step]:
        variables = {"SERVICE": self.base_url, "ACCOUNT": self.client_id}
        if _is_plain_http_over_a_network(self.base_url):
            variables["PLAIN_HTTP"] = "1"
        exports = "\n".join(f"export DAYBREAK_{name}={value}" for name, value in variables.items())
        sync = f"daybreak sync duckdb:///{DATABASE}"
        return (
            Step("Name the service and the account", exports, "Requires the client with the extra duckdb."),
            Step("Keep a database up to date", sync, "Later runs transfer only the rows that changed."),
            Step("Or download all files", "daybreak fetch exports", "Later runs download only changed files."),
        )


ENTER_TOKEN = Step(
    "Enter the token",
    ENTER_TOKEN_COMMAND,
    "For bash and zsh. Press Enter, paste the token, and press Enter again. It is not shown, and not in the history.",
)
_ENTER_TOKEN_IN_POWERSHELL = Step(
    "Enter the token",
    f"$env:{VARIABLE} = [Net.NetworkCredential]::new('', (Read-Host 'Token' -AsSecureString)).Password",
    "Paste the token at the prompt. It is not shown, and not in the history.",
)
SAVE_HEADER = Step(
    "Save it for curl", save_token_command(f'"${VARIABLE}"'), f"Writes {HEADER_FILE}, which only you can read."
)


def first_request(settings: Settings, client_id: str) -> FirstRequest:
    """Return the request of the examples: the smallest file, as CSV if the service publishes it."""
    file_format = sample_format(settings.snapshot.formats)
    return FirstRequest(settings.base_url, client_id, resource_named("campaigns"), file_format)


def _is_plain_http_over_a_network(base_url: str) -> bool:
    """Return whether the client needs DAYBREAK_PLAIN_HTTP, because the token is not encrypted in transfer."""
    parts = urlsplit(base_url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return False
    try:
        return not ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True
