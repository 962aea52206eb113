"""`daybreak files` and `daybreak link`."""

from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.freshness import freshness
from daybreak_client.command.options import Access, AsJson, Format
from daybreak_client.command.output import format_count, format_size, print_json, print_note, print_table, print_text
from daybreak_client.command.sign_in import connect, current_profile, selected_account
from daybreak_client.published import PublishedSnapshot


def files(*, access: Access = Access(), as_json: AsJson = False) -> None:
    """List the files of the account and their freshness. In a pipe, sizes are in bytes."""
    profile = current_profile(access)
    with connect(profile) as service:
        published = service.account(selected_account(access, profile)).published()
    if as_json:
        print_json(_as_json(published))
        return
    print_table(
        ("file", "rows", "size"),
        [(file.name, format_count(file.rows), format_size(file.size_bytes)) for file in published.files],
        frozenset({"rows", "size"}),
    )
    print_note(freshness(published))
    if published.incomplete:
        print_note(published.incomplete_note)


def link(
    resource: Annotated[str, Parameter(help="Resource, such as members.")],
    format: Format = "csv",
    *,
    access: Access = Access(),
) -> None:
    """Print a signed link to a file. Anyone with the link can download the file for some minutes."""
    profile = current_profile(access)
    with connect(profile) as service:
        print_text(service.account(selected_account(access, profile)).link(resource, format))


def _as_json(published: PublishedSnapshot) -> dict[str, object]:
    return {
        **published.description(),
        "files": [
            {"file": file.name, "resource": file.resource, "format": file.format, "rows": file.rows,
             "bytes": file.size_bytes, "sha256": file.sha256, "content_sha256": file.content_sha256}
            for file in published.files
        ],
    }  # fmt: skip
