"""Shell commands for curl. Tokens are in files: every user of a machine can list the arguments of its processes."""

from __future__ import annotations

from daybreak.catalogue.formats import Format
from daybreak.catalogue.resources import Resource

HEADER_FILE = "daybreak-token.txt"
"""File with the Authorization header of an API token."""

VARIABLE = "DAYBREAK_TOKEN"
"""Environment variable with the token."""
ENTER_TOKEN_COMMAND = f"read -rs {VARIABLE} && export {VARIABLE}"
"""Reads a token at a prompt of bash or zsh. It is not shown, and not in the history."""


def save_token_command(token: str) -> str:
    """Return a command that writes the header file. `token` is a token, or a quoted variable of the shell.

    Shells run `printf` without a process.
    """
    return f"umask 077\nprintf 'Authorization: Bearer %s\\n' {token} \\\n  > {HEADER_FILE}"


def download_command(url: str, output: str, header_file: str = HEADER_FILE) -> str:
    """Return a command that downloads a file, or prints an error and saves nothing."""
    return f"curl -sSfL -H @{header_file} -o {output} {url}"


def file_url(base_url: str, client_id: str, resource: Resource, file_format: Format) -> str:
    """Return the URL of the newest file of a resource."""
    return f"{base_url}/download/v1/files/{client_id}/{resource.path_for(file_format)}"
