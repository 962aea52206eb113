"""Copies in a folder: whole, of one snapshot, and never less than was there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak_client import copies
from daybreak_client.copies import OpenOctets, bring
from daybreak_client.errors import Damaged, Unreachable, WrongUse
from daybreak_client.published import PublishedFile

CONTENT = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def without_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_FIRST_WAIT_SECONDS", 0.0001)


def published(resource: str, content: bytes = CONTENT) -> PublishedFile:
    name = f"{resource}.csv.gz"
    digest = hashlib.sha256(content).hexdigest()
    return PublishedFile(resource, resource, "csv", name, f"/files/{name}", 1, len(content), digest)


def serving(*given_in_turn: Callable[[int], Iterator[bytes]]) -> OpenOctets:
    """Answers each transfer by the next of these, and every one after them by the last."""
    left = list(given_in_turn)

    @contextmanager
    def octets(_file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        yield offset, (left.pop(0) if len(left) > 1 else left[0])(offset)

    return octets


def everything(offset: int) -> Iterator[bytes]:
    yield CONTENT[offset:]


def broken_after(count: int) -> Callable[[int], Iterator[bytes]]:
    def octets(offset: int) -> Iterator[bytes]:
        yield CONTENT[offset : offset + count]
        raise Unreachable("broke off")

    return octets


def quiet(_file: PublishedFile, _size_bytes: int) -> None:
    pass


def test_what_is_there_already_is_not_fetched_again(tmp_path: Path) -> None:
    files = [published("members"), published("campaigns")]
    assert bring(tmp_path, files, serving(everything), quiet) == tuple(files)

    def never(_file: PublishedFile, _offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        raise AssertionError("nothing is missing")

    assert bring(tmp_path, files, contextmanager(never), quiet) == ()
    (tmp_path / "members.csv.gz").write_bytes(CONTENT[::-1])
    assert bring(tmp_path, files, serving(everything), quiet) == (files[0],)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "members.csv.gz": CONTENT,
        "campaigns.csv.gz": CONTENT,
    }


@given(st.lists(st.integers(1, 3000), max_size=12))
def test_a_transfer_that_breaks_off_goes_on_where_it_was(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int]
) -> None:
    folder, told = tmp_path_factory.mktemp("copies"), list[int]()
    octets = serving(*map(broken_after, counts), everything)
    bring(folder, [published("members")], octets, lambda _file, size_bytes: told.append(size_bytes))
    assert (folder / "members.csv.gz").read_bytes() == CONTENT
    assert told == sorted(told)
    assert told[-1] == len(CONTENT)


def test_a_later_call_goes_on_too(tmp_path: Path) -> None:
    begun: list[int] = []

    def noted(offset: int) -> Iterator[bytes]:
        begun.append(offset)
        yield CONTENT[offset:]

    with pytest.raises(KeyboardInterrupt):
        bring(tmp_path, [published("members")], serving(broken_after(700)), interrupt)
    bring(tmp_path, [published("members")], serving(noted), quiet)
    assert begun == [700]
    assert [path.name for path in tmp_path.iterdir()] == ["members.csv.gz"]


def interrupt(_file: PublishedFile, _size_bytes: int) -> None:
    raise KeyboardInterrupt


def test_a_server_that_begins_at_the_beginning_is_understood(tmp_path: Path) -> None:
    offsets: list[int] = []

    @contextmanager
    def whole(_file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        offsets.append(offset)
        yield 0, iter([CONTENT] if offset else [CONTENT[:9]])

    bring(tmp_path, [published("members")], whole, quiet)
    assert offsets == [0, 9]
    assert (tmp_path / "members.csv.gz").read_bytes() == CONTENT


def test_who_gets_nothing_gives_up_and_keeps_what_there_was(tmp_path: Path) -> None:
    (tmp_path / "members.csv.gz").write_bytes(b"of yesterday")
    tries: list[int] = []

    def nothing(offset: int) -> Iterator[bytes]:
        tries.append(offset)
        yield from ()
        raise Unreachable("the store is away")

    with pytest.raises(Unreachable, match="the store is away"):
        bring(tmp_path, [published("members")], serving(nothing), quiet)
    assert tries == [0] * 5
    assert (tmp_path / "members.csv.gz").read_bytes() == b"of yesterday"


def test_nothing_is_put_in_place_before_all_is_there(tmp_path: Path) -> None:
    names = ("campaigns", "members", "communities")
    for name in names:
        (tmp_path / f"{name}.csv.gz").write_bytes(b"of yesterday")

    @contextmanager
    def but_one(file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        if file.resource == "communities":
            raise Unreachable("the store is away")
        yield offset, everything(offset)

    with pytest.raises(Unreachable):
        bring(tmp_path, [published(name) for name in names], but_one, quiet)
    assert {(tmp_path / f"{name}.csv.gz").read_bytes() for name in names} == {b"of yesterday"}


def test_other_content_than_was_published_is_refused(tmp_path: Path) -> None:
    (tmp_path / "members.csv.gz").write_bytes(b"of yesterday")
    with pytest.raises(Damaged, match=r"members\.csv\.gz"):
        bring(tmp_path, [published("members", CONTENT[::-1])], serving(everything), quiet)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("members.csv.gz", b"of yesterday")]


def test_a_part_that_was_damaged_is_fetched_anew(tmp_path: Path) -> None:
    file = published("members")
    (tmp_path / f".members.csv.gz.{file.sha256[:16]}.part").write_bytes(b"?" * 100)
    bring(tmp_path, [file], serving(everything), quiet)
    assert (tmp_path / "members.csv.gz").read_bytes() == CONTENT


def test_parts_of_files_that_are_no_more_go(tmp_path: Path) -> None:
    (tmp_path / ".members.csv.gz.0123456789abcdef.part").write_bytes(CONTENT[:9])
    (tmp_path / ".members.csv.gz.notes").write_bytes(b"somebody's own")
    bring(tmp_path, [published("members")], serving(everything), quiet)
    assert {path.name for path in tmp_path.iterdir()} == {"members.csv.gz", ".members.csv.gz.notes"}


def test_two_fetches_do_not_meet_in_one_folder(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(offset: int) -> Iterator[bytes]:
        begun.set()
        go_on.wait(60)
        yield CONTENT[offset:]

    files = [published("members")]
    first = threading.Thread(target=bring, args=(tmp_path, files, serving(slow), quiet))
    first.start()
    assert begun.wait(60)
    with pytest.raises(WrongUse, match="another fetch"):
        bring(tmp_path, files, serving(everything), quiet)
    go_on.set()
    first.join()
    assert bring(tmp_path, files, serving(everything), quiet) == ()
