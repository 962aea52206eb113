"""Update of a folder: complete files of one snapshot, and no loss on errors."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak_client import folder as folder_module
from daybreak_client.errors import Busy, Damaged, Unreachable, WrongUse
from daybreak_client.folder import OpenFile, locked, make_private_folder, replace_private, update_folder
from daybreak_client.published import PublishedFile

CONTENT = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def without_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_FIRST_WAIT_SECONDS", 0.0001)


def published(resource: str, content: bytes = CONTENT) -> PublishedFile:
    name = f"{resource}.csv.gz"
    digest = hashlib.sha256(content).hexdigest()
    return PublishedFile(resource, resource, "csv", name, f"/files/{name}", 1, len(content), digest, digest)


def serving(*transfers: Callable[[int], Iterator[bytes]]) -> OpenFile:
    """Serve each download with the next transfer, and all others with the last one."""
    remaining = list(transfers)

    @contextmanager
    def open_file(_file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        yield offset, (remaining.pop(0) if len(remaining) > 1 else remaining[0])(offset)

    return open_file


def whole_file(offset: int) -> Iterator[bytes]:
    yield CONTENT[offset:]


def interrupted_after(count: int) -> Callable[[int], Iterator[bytes]]:
    def transfer(offset: int) -> Iterator[bytes]:
        yield CONTENT[offset : offset + count]
        raise Unreachable("interrupted")

    return transfer


def nothing(_offset: int) -> Iterator[bytes]:
    yield from ()


def ignore_progress(_file: PublishedFile, _size_bytes: int) -> None:
    pass


def test_folder_in_place_of_a_file_changes_nothing(tmp_path: Path) -> None:
    files = [published("campaigns"), published("members")]
    (tmp_path / "members.csv.gz").mkdir()
    with pytest.raises(WrongUse, match=r"members\.csv\.gz is a folder\. Remove it"):
        update_folder(tmp_path, files, serving(whole_file), ignore_progress)
    assert [path.name for path in tmp_path.iterdir()] == ["members.csv.gz"]


def test_lock_that_fails_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no locks."""

    def fail(_folder: Path) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(folder_module, "_lock", fail)
    with pytest.raises(OSError, match="No locks available") as caught, locked(tmp_path):
        pass
    assert caught.value.filename == str(tmp_path)


def test_existing_files_are_not_downloaded_again(tmp_path: Path) -> None:
    files = [published("members"), published("campaigns")]
    assert update_folder(tmp_path, files, serving(whole_file), ignore_progress) == tuple(files)

    def never(_file: PublishedFile, _offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        raise AssertionError("no file is missing")

    assert update_folder(tmp_path, files, contextmanager(never), ignore_progress) == ()
    (tmp_path / "members.csv.gz").write_bytes(CONTENT[::-1])
    assert update_folder(tmp_path, files, serving(whole_file), ignore_progress) == (files[0],)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "members.csv.gz": CONTENT,
        "campaigns.csv.gz": CONTENT,
    }


@given(st.lists(st.integers(1, 3000), max_size=12))
def test_interrupted_transfer_is_resumed(tmp_path_factory: pytest.TempPathFactory, counts: list[int]) -> None:
    folder, sizes = tmp_path_factory.mktemp("folder"), list[int]()
    open_file = serving(*map(interrupted_after, counts), whole_file)
    update_folder(folder, [published("members")], open_file, lambda _file, size_bytes: sizes.append(size_bytes))
    assert (folder / "members.csv.gz").read_bytes() == CONTENT
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(CONTENT)


def test_next_call_resumes_a_transfer(tmp_path: Path) -> None:
    offsets: list[int] = []

    def recorded(offset: int) -> Iterator[bytes]:
        offsets.append(offset)
        yield CONTENT[offset:]

    with pytest.raises(KeyboardInterrupt):
        update_folder(tmp_path, [published("members")], serving(interrupted_after(700)), interrupt)
    update_folder(tmp_path, [published("members")], serving(recorded), ignore_progress)
    assert offsets == [700]
    assert [path.name for path in tmp_path.iterdir()] == ["members.csv.gz"]


def interrupt(_file: PublishedFile, _size_bytes: int) -> None:
    raise KeyboardInterrupt


def test_interrupt_does_not_wait_for_a_stalled_transfer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_MAX_STOP_SECONDS", 0.05)
    stalled, resume = Event(), Event()

    def stalling(offset: int) -> Iterator[bytes]:
        yield CONTENT[offset:700]
        stalled.set()
        assert resume.wait(30)
        yield CONTENT[700:]

    @contextmanager
    def open_file(file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        if file.resource == "campaigns":
            assert stalled.wait(30)
            raise KeyboardInterrupt
        yield offset, stalling(offset)

    files = [published("members"), published("campaigns")]
    with pytest.raises(KeyboardInterrupt):
        update_folder(tmp_path, files, open_file, ignore_progress)
    (thread,) = (each for each in enumerate_threads() if each.name.startswith("fetch-"))
    assert thread.daemon
    resume.set()
    thread.join(30)
    (partial,) = tmp_path.iterdir()
    assert partial.read_bytes() == CONTENT[:700], "nothing is written after the interrupt"


def test_server_may_ignore_the_offset(tmp_path: Path) -> None:
    offsets: list[int] = []

    @contextmanager
    def whole(_file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        offsets.append(offset)
        yield 0, iter([CONTENT] if offset else [CONTENT[:9]])

    update_folder(tmp_path, [published("members")], whole, ignore_progress)
    assert offsets == [0, 9]
    assert (tmp_path / "members.csv.gz").read_bytes() == CONTENT


def test_update_without_progress_fails_and_keeps_files(tmp_path: Path) -> None:
    (tmp_path / "members.csv.gz").write_bytes(b"of yesterday")
    attempts: list[int] = []

    def nothing(offset: int) -> Iterator[bytes]:
        attempts.append(offset)
        yield from ()
        raise Unreachable("the store is unavailable")

    with pytest.raises(Unreachable, match="the store is unavailable"):
        update_folder(tmp_path, [published("members")], serving(nothing), ignore_progress)
    assert attempts == [0] * 5
    assert (tmp_path / "members.csv.gz").read_bytes() == b"of yesterday"


def test_response_that_stays_short_is_an_error(tmp_path: Path) -> None:
    @contextmanager
    def short(_file: PublishedFile, _offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        yield 0, iter([CONTENT[:9]])

    with pytest.raises(Damaged, match="incomplete"):
        update_folder(tmp_path, [published("members")], short, ignore_progress)
    assert not list(tmp_path.iterdir()), "the next call starts from the first byte"


def test_files_are_replaced_together(tmp_path: Path) -> None:
    names = ("campaigns", "members", "communities")
    for name in names:
        (tmp_path / f"{name}.csv.gz").write_bytes(b"of yesterday")

    @contextmanager
    def all_but_one(file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        if file.resource == "communities":
            raise Unreachable("the store is unavailable")
        yield offset, whole_file(offset)

    with pytest.raises(Unreachable):
        update_folder(tmp_path, [published(name) for name in names], all_but_one, ignore_progress)
    assert {(tmp_path / f"{name}.csv.gz").read_bytes() for name in names} == {b"of yesterday"}


def test_failed_rename_restores_all_files(tmp_path: Path) -> None:
    files = [published(name) for name in ("campaigns", "campaign_links", "members")]
    (tmp_path / "campaigns.csv.gz").write_bytes(b"of yesterday")

    def make_folder(file: PublishedFile, _size_bytes: int) -> None:
        if file is files[2]:
            (tmp_path / file.name).mkdir()

    with pytest.raises(IsADirectoryError) as caught:
        update_folder(tmp_path, files, serving(whole_file), make_folder)
    assert caught.value.filename == str(tmp_path / "members.csv.gz")
    assert {path.name for path in tmp_path.glob("[a-z]*")} == {"campaigns.csv.gz", "members.csv.gz"}
    assert (tmp_path / "campaigns.csv.gz").read_bytes() == b"of yesterday"
    (tmp_path / "members.csv.gz").rmdir()
    assert update_folder(tmp_path, files, serving(nothing), ignore_progress) == tuple(files)
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in files}


def test_wrong_digest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "members.csv.gz").write_bytes(b"of yesterday")
    with pytest.raises(Damaged, match=r"members\.csv\.gz"):
        update_folder(tmp_path, [published("members", CONTENT[::-1])], serving(whole_file), ignore_progress)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("members.csv.gz", b"of yesterday")]


def test_damaged_partial_file_is_downloaded_again(tmp_path: Path) -> None:
    file = published("members")
    (tmp_path / f".members.csv.gz.{file.sha256[:16]}.part").write_bytes(b"?" * 100)
    update_folder(tmp_path, [file], serving(whole_file), ignore_progress)
    assert (tmp_path / "members.csv.gz").read_bytes() == CONTENT


def test_outdated_partial_files_are_deleted(tmp_path: Path) -> None:
    (tmp_path / ".members.csv.gz.0123456789abcdef.part").write_bytes(CONTENT[:9])
    (tmp_path / ".members.csv.gz.notes").write_bytes(b"another program's")
    update_folder(tmp_path, [published("members")], serving(whole_file), ignore_progress)
    assert {path.name for path in tmp_path.iterdir()} == {"members.csv.gz", ".members.csv.gz.notes"}


def test_parallel_update_of_a_folder_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(Busy, match="another"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_files_and_folders_are_private(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "exports" / "north"
    previous = os.umask(umask)
    try:
        make_private_folder(folder)
        update_folder(folder, [published("members")], serving(whole_file), ignore_progress)
    finally:
        os.umask(previous)
    modes = {path: path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / "members.csv.gz")}
    assert modes == {folder.parent: 0o700, folder: 0o700, folder / "members.csv.gz": 0o600}


def test_intact_files_become_private(tmp_path: Path) -> None:
    files = [published("members"), published("campaigns")]
    for file, mode in zip(files, (0o644, 0o400), strict=True):
        (tmp_path / file.name).write_bytes(CONTENT)
        (tmp_path / file.name).chmod(mode)
    assert update_folder(tmp_path, files, serving(whole_file), ignore_progress) == ()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    make_private_folder(tmp_path / "shared")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("path", [Path(), Path("/"), Path("missing/x"), Path("file/x")])
def test_error_of_a_replaced_file_names_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(OSError, match=str(path)) as caught:
        replace_private(path, "")
    assert caught.value.filename == str(path)
