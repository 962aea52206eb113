"""Commands and programs that make a first request with an API token, ready to paste.

They read the token from the environment or from a private file: every user of a machine can list the arguments of its
processes, and shells store what was typed. The token is entered at a prompt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from daybreak.catalogue.formats import Format, format_named
from daybreak.catalogue.resources import Resource
from daybreak.web.api.examples import (
    ENTER_TOKEN_COMMAND,
    HEADER_FILE,
    VARIABLE,
    download_command,
    file_url,
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


@dataclass(frozen=True, slots=True)
class Example:
    """Steps in one language. `key` is part of ids in the page."""

    key: str
    title: str
    steps: tuple[Step, ...]


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

    def examples(self) -> tuple[Example, ...]:
        return (
            Example("curl", "curl", (ENTER_TOKEN, SAVE_HEADER, self._curl())),
            Example("python", "Python", (ENTER_TOKEN, self._python())),
            Example("r", "R", (ENTER_TOKEN, self._r())),
            Example("duckdb", "DuckDB", (ENTER_TOKEN, SAVE_HEADER, self._curl(), self._duckdb())),
            Example("powershell", "PowerShell", (_ENTER_TOKEN_IN_POWERSHELL, self._powershell())),
            Example("sync", "daybreak sync", (ENTER_TOKEN, *self._client())),
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


def example_format(formats: tuple[str, ...]) -> Format:
    """Return the format of the examples: CSV, or the first one that the service publishes."""
    return format_named("csv" if "csv" in formats else formats[0])


def _is_plain_http_over_a_network(base_url: str) -> bool:
    """Return whether the client needs DAYBREAK_PLAIN_HTTP, because the token is not encrypted in transfer."""
    parts = urlsplit(base_url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return False
    try:
        return not ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True
