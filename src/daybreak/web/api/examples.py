"""Example values of the API description, and the description of fields."""

from msgspec import Meta

from daybreak.catalogue.formats import Format, format_named
from daybreak.catalogue.resources import Resource

CLIENT_ID = "7d909222-adf5-4547-93e0-e8f60c50f980"
SEAT_ID = "0b9f6c1e-2f4d-4c55-9a4e-3d1f5a7c8e21"
DEVICE_ID = "c1f0a4de-6f53-4b0e-8d57-2b8f3f1c9a60"
SNAPSHOT_ID = "5e0a3c9d-7b1f-4f0c-a8de-90c2f4b7d613"
SESSION_ID = "a2b6f1d4-53c8-4e7a-9f02-6d41c8e7b935"
REQUEST_ID = "4f9d1c07a3b2e85d6610c4aa"
AS_OF = "2026-11-24T03:12:07Z"
PUBLISHED_AT = "2026-11-24T04:00:00Z"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
CONTENT_SHA256 = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
LINK = (
    f"https://export.example.org/download/v1/links/{CLIENT_ID}/{SNAPSHOT_ID}/campaigns.csv.gz"
    "?expires=1795509900&nonce=8d1f0c27a95be364&subject=1a2b6f1d453c84e7a9f026d41c8e7b935&kid=5c90e1ab"
    "&signature=3b1f...c07e&name=campaigns.csv.gz"
)
DELTA_LINK = LINK.replace("campaigns.csv.gz", "members.delta.csv.gz")
SESSION_JWT = "eyJ0eXAiOiJzZXNzaW9uK2p3dCIs..."
PENDING_JWT = "eyJ0eXAiOiJtZmErand0Iiwi..."

HEADER_FILE = "daybreak-token.txt"
"""File with the Authorization header of an API token."""

VARIABLE = "DAYBREAK_TOKEN"
"""Environment variable with the token."""
ENTER_TOKEN_COMMAND = f"read -rs {VARIABLE} && export {VARIABLE}"
"""Reads a token at a prompt of bash or zsh. It is not shown, and not in the history."""


def uuid(description: str, example: str) -> Meta:
    """Describe a field or parameter that holds an id."""
    return Meta(description=description, examples=[example], extra_json_schema={"format": "uuid"})


def field(description: str, example: object) -> Meta:
    return Meta(description=description, examples=[example])


def sample_format(formats: tuple[str, ...]) -> Format:
    """Return the format of examples: CSV, or the first one that the service publishes."""
    return format_named("csv" if "csv" in formats else formats[0])


def save_token_command(token: str) -> str:
    """Return a command that writes the header file. `token` is a token, or a quoted variable of the shell.

    Shells run `printf` without a process.
    """
    return f"umask 077\nprintf 'Authorization: Bearer %s\\n' {token} \\\n  > {HEADER_FILE}"


def download_command(url: str, output: str, header_file: str = HEADER_FILE) -> str:
    """Return a command that downloads a file, or prints an error and saves nothing."""
    return f"curl -sSfL -H @{header_file} -o {output} {url}"


def file_command(base_url: str, client_id: str, resource: Resource, file_format: Format) -> str:
    """Return a command that downloads the newest file of a resource."""
    return download_command(file_url(base_url, client_id, resource, file_format), resource.file_name(file_format))


def file_url(base_url: str, client_id: str, resource: Resource, file_format: Format) -> str:
    """Return the URL of the newest file of a resource."""
    return f"{base_url}/download/v1/files/{client_id}/{resource.path_for(file_format)}"
