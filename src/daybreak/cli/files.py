"""`daybreakd files`: the file store as a whole."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from daybreak.bootstrap import open_files
from daybreak.cli.options import Config, settings_of, state_of
from daybreak.cli.output import print_note, print_text
from daybreak.domain.display import format_count, format_size
from daybreak.domain.errors import WrongUse
from daybreak.settings import FilesSettings, Settings
from daybreak.settings.text_forms import parse_files_url
from daybreak.snapshots.copy_files import Copied, copy_files

app = App(name="files", help="Manage the file store.")
_INTERVAL_SECONDS = 10.0
_MAX_THREADS = 16
_MAX_NAMED = 20


@app.command
def copy(
    target: Annotated[
        str, Parameter(help="An empty folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix.")
    ],
    *,
    endpoint: Annotated[str | None, Parameter(help="URL of the server of the target. Default: files.endpoint.")] = None,
    config: Config = None,
) -> int:
    """Copy the stored files to another store and verify their digests. Exit code 1 if a file cannot be copied.

    Other files in the target are never replaced. After an interruption, run it
    again: it continues. Files of an earlier copy that the source has deleted since
    are deleted, as after an erasure. The service may run meanwhile; stop it for
    the last copy, then set files.url to the target.
    """
    settings = settings_of(config)
    to = _target_settings(settings, target, endpoint)
    _refuse_unsuitable(settings.files, to.files)
    source_store, target_store = open_files(settings), open_files(to)
    target_store.probe()
    with state_of(settings) as state:
        copied = copy_files(state, source_store, target_store, _MAX_THREADS, _print_progress())
    # A lost pack is the fault of each file in it.
    for fault in list(dict.fromkeys(copied.faults))[:_MAX_NAMED]:
        print_text(f"fault: {fault}")
    print_text(
        f"{format_count(copied.files, 'file')} copied, {format_size(copied.bytes)}; {copied.present:,} were there; "
        f"{copied.deleted:,} deleted; {format_count(len(copied.faults), 'fault')}"
    )
    if copied.faults:
        print_note(
            "To write files of the published snapshot again, run `daybreakd snapshot verify --repair` and `daybreakd "
            "snapshot run`. Delete other snapshots with `daybreakd snapshot forget`. Then run this command again."
        )
        return 1
    print_note(f'To serve these files, stop the service, run this command again, and set files.url = "{to.files.url}".')
    return 0


def _target_settings(settings: Settings, url: str, endpoint: str | None) -> Settings:
    """Return the settings with the target as the file store. Raises WrongUse for an invalid URL."""
    try:
        parsed = parse_files_url(url, Path.cwd())
    except ValueError:
        raise WrongUse(
            f"{url!r} is not a folder or bucket. Use a folder, s3://bucket/prefix, gs://bucket/prefix or "
            "az://container/prefix."
        ) from None
    changes = {"url": parsed} if endpoint is None else {"url": parsed, "endpoint": endpoint}
    return settings.model_copy(update={"files": settings.files.model_copy(update=changes)})


def _refuse_unsuitable(source: FilesSettings, target: FilesSettings) -> None:
    """Raise WrongUse for a target in the source, which is deleted after a move, and a folder that may be mistyped."""
    folder = target.folder
    if (folder or target.endpoint == source.endpoint) and f"{target.url}/".startswith(f"{source.url}/"):
        raise WrongUse(f"{target.url} is the store of files.url, or in it. Name another one.")
    if folder is None:
        return
    if not folder.is_dir():
        raise WrongUse(f"There is no folder {folder}. Create it, or mount its disk.")
    if not (folder / "snapshots").is_dir() and any(each.name != "lost+found" for each in folder.iterdir()):
        raise WrongUse(f"The folder {folder} has other files than an earlier copy. Name an empty one.")


def _print_progress() -> Callable[[Copied], None]:
    printed_at = time.monotonic()

    def watch(copied: Copied) -> None:
        nonlocal printed_at
        if time.monotonic() >= printed_at + _INTERVAL_SECONDS:
            printed_at = time.monotonic()
            print_note(f"{copied.files:,} files copied, {format_size(copied.bytes)}; {copied.present:,} were there")

    return watch
