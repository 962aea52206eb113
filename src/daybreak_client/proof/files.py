"""Files in a folder, compared with their statement."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from daybreak_client import wire
from daybreak_client.errors import NotProved
from daybreak_client.folder import read_regular, replace_private, sha256_of
from daybreak_client.proof.statement import SIGNATURE_NAME, STATEMENT_NAME, SignedFile, Statement
from daybreak_client.proof.verifier import SignedStatement
from daybreak_client.published import check_names


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that is not as the statement says. `code` is for programs: missing, extra, other_version or different."""

    file: str
    code: str
    message: str


def save_statement(folder: Path, signed: SignedStatement | None) -> None:
    """Write the statement of the files in a folder, and its signature. Without one, an older one is deleted."""
    for name, content in (
        (STATEMENT_NAME, signed.content if signed else b""), (SIGNATURE_NAME, signed.signature if signed else b"")
    ):  # fmt: skip
        if content:
            replace_private(folder / name, content.decode())
        else:
            (folder / name).unlink(missing_ok=True)


def load_statement(folder: Path) -> tuple[bytes, bytes] | None:
    """Return the statement in a folder and its signature, None if one of them is missing."""
    try:
        content = read_regular(folder / STATEMENT_NAME, wire.MAX_JSON_BYTES)
        return content, read_regular(folder / SIGNATURE_NAME, wire.MAX_JSON_BYTES)
    except FileNotFoundError:
        return None


def expected_files(
    folder: Path, statement: Statement, resources: Collection[str], formats: Collection[str]
) -> tuple[SignedFile, ...]:
    """Return the files that a folder must contain: all of the named resources and formats.

    Default: all resources, in the formats of which the folder has a file, or CSV. Raises WrongUse for unknown names,
    NotProved without a file.
    """
    present = {file.format for file in statement.files.values() if (folder / file.name).exists()}
    check_names("resource", resources, sorted({file.resource for file in statement.files.values()}))
    check_names("format", formats, sorted({file.format for file in statement.files.values()}))
    wanted_formats = formats or present or {"csv"}
    found = tuple(
        file
        for file in statement.files.values()
        if file.format in wanted_formats and (not resources or file.resource in resources)
    )
    if not found:
        raise NotProved(f"The statement of {statement.edition} contains no such file.")
    return found


def check_files(
    folder: Path, statement: Statement, expected: Collection[SignedFile], recorded: Mapping[str, int]
) -> Iterator[Fault]:
    """Yield what differs between a folder and its statement. `recorded` are versions by digest of earlier fetches."""
    for file in expected:
        path = folder / file.name
        if not path.is_file():
            text = f"missing, but in the statement of {statement.edition}. If you fetch only some files, use --only"
            yield Fault(file.name, "missing", f"{text} and --format.")
        else:
            yield from _check_content(path, file, statement, recorded)
    others = {file.name for file in expected}
    for path in sorted(folder.iterdir()):
        signed = statement.files.get(path.name)
        if path.name in others or path.name.startswith(".") or not path.name.lower().endswith(_ENDINGS):
            continue
        if signed is not None and path.is_file():
            yield from _check_content(path, signed, statement, recorded)
        elif not _is_signed_delta(path, statement):
            yield Fault(path.name, "extra", f"not in the statement of {statement.edition}. Remove it.")


_ENDINGS = tuple(wire.ENDINGS.values())


def _check_content(path: Path, file: SignedFile, statement: Statement, recorded: Mapping[str, int]) -> Iterator[Fault]:
    digest = sha256_of(path)
    if digest == file.sha256 and path.stat().st_size == file.size_bytes:
        return
    version = recorded.get(digest)
    if version not in {None, statement.edition.version}:
        text = f"the file of version {version}, not of {statement.edition}. Fetch all files again."
        yield Fault(path.name, "other_version", text)
    else:
        text = f"differs from the file that the service signed for {statement.edition}. Fetch it again."
        yield Fault(path.name, "different", text)


def _is_signed_delta(path: Path, statement: Statement) -> bool:
    """Return whether a file is a delta of the statement, such as `members.delta.csv.gz`."""
    resource, _, ending = path.name.removeprefix(f"{statement.edition.version}.").partition(".")
    delta = statement.deltas.get(resource)
    if delta is None or ending != f"delta{wire.ENDINGS['csv']}" or not path.is_file():
        return False
    return sha256_of(path) == delta.sha256
