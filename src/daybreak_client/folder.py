"""Update of a local folder to the published files, and the wait for a lock that another fetch or sync holds.

Missing files are downloaded next to the others, compared with their digests, and then renamed in immediate
succession. The folder therefore contains the files of one snapshot, and an error leaves it unchanged. The next call
resumes an interrupted download. Files have mode 0600 and new folders 0700, whatever the umask.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import BinaryIO, TypeVar

from daybreak_client.errors import Busy, ClientError, Damaged, Unreachable, WrongUse
from daybreak_client.published import PublishedFile

T = TypeVar("T")
# (file, offset) -> (offset of the first byte, the bytes). Raises Unreachable when the transfer is interrupted.
OpenFile = Callable[[PublishedFile, int], AbstractContextManager[tuple[int, Iterator[bytes]]]]
# Receives a file and the number of its bytes that are on disk. Called from several threads.
ProgressCallback = Callable[[PublishedFile, int], None]

_MAX_PARALLEL_DOWNLOADS = 4
_MAX_ATTEMPTS_WITHOUT_PROGRESS = 5
# Longer than five attempts of which each waits for a rate limit.
_STALL_SECONDS = 600.0
_OUTCOME_POLL_SECONDS = 1.0
_MIN_PROGRESS_BYTES = 1 << 16
_FIRST_WAIT_SECONDS = 1.0
# After this time, a thread that waits for the network ends in the background, without another write.
_MAX_STOP_SECONDS = 2.0
_PARTIAL_SUFFIX = ".part"
_PRIVATE_MODE = 0o600
_ANNOUNCE_SECONDS = 5.0
_LOCK_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class LockWait:
    """Maximum wait for a lock in seconds, and a receiver of text about a wait that takes longer than 5 seconds."""

    seconds: float = 300.0
    announce: Callable[[str], None] = lambda _text: None

    def acquire(self, attempt: Callable[[], T | None], holder: str) -> T:
        """Repeat an attempt until it returns a value. `holder` is a sentence. Raises Busy after the maximum wait."""
        start, announced = time.monotonic(), False
        while True:
            found = attempt()
            if found is not None:
                return found
            waited = time.monotonic() - start
            if waited >= self.seconds:
                raise Busy(f"{holder} Try again later, or wait longer with --lock-timeout.")
            if waited >= _ANNOUNCE_SECONDS and not announced:
                announced = True
                self.announce(f"{holder} Waiting up to {self.seconds:.0f} seconds.")
            time.sleep(min(_LOCK_POLL_SECONDS, self.seconds - waited))


NO_WAIT = LockWait(0.0)
DEFAULT_WAIT = LockWait()


def update_folder(
    folder: Path, files: Sequence[PublishedFile], open_file: OpenFile, on_progress: ProgressCallback | None
) -> tuple[PublishedFile, ...]:
    """Download the files that the folder lacks and return them. Either all of them are replaced or none.

    The caller has locked the folder. Raises Damaged, WrongUse for a folder in place of a file, and what `open_file`
    raises.
    """
    missing = missing_files(folder, files)
    for path in (folder / file.name for file in missing):
        if path.is_dir() and not path.is_symlink():
            raise WrongUse(f"{path} is a folder. Remove it.")
    _download_all(folder, missing, _Downloader(open_file, on_progress))
    _replace_all(folder, missing)
    for file in files:
        _make_private(folder / file.name)
        for outdated in folder.glob(f".{file.name}.*{_PARTIAL_SUFFIX}"):
            outdated.unlink()
    return missing


def _replace_all(folder: Path, files: Sequence[PublishedFile]) -> None:
    """Rename the partial files. After an error, which names the file, the folder contains the earlier files again."""
    replaced: list[tuple[Path, Path, Path]] = []
    for file in files:
        path, partial = folder / file.name, _partial_path(folder, file)
        earlier = folder / f".{file.name}.earlier{_PARTIAL_SUFFIX}"
        earlier.unlink(missing_ok=True)
        # Some file systems have no hard links. There, an earlier file cannot be restored.
        with suppress(OSError):
            earlier.hardlink_to(path)
        can_be_restored = earlier.exists() or not path.exists()
        try:
            partial.replace(path)
        except OSError as fault:
            fault.filename = str(path)
            for each in replaced:
                _restore(*each)
            raise
        if can_be_restored:
            replaced.append((path, partial, earlier))


def _restore(path: Path, partial: Path, earlier: Path) -> None:
    path.replace(partial)
    with suppress(FileNotFoundError):
        earlier.replace(path)


def missing_files(folder: Path, files: Sequence[PublishedFile]) -> tuple[PublishedFile, ...]:
    """Return the files that a folder lacks, or contains with other content."""
    return tuple(file for file in files if not _is_complete(folder / file.name, file))


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700. An existing folder keeps its mode."""
    if folder.exists():
        return
    make_private_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)


def expanded(path: Path) -> Path:
    """Return a path whose `~` is the home folder. Raises WrongUse for a user without one."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise WrongUse(f"The home folder of {path} is unknown. Set HOME, or use another path.") from None


def subfolder(folder: Path, name: str) -> Path:
    """Return a folder in a folder. Raises WrongUse for a link, which would lead out of it."""
    path = folder / name
    if path.is_symlink():
        raise WrongUse(f"{path} is a symbolic link. Replace it by a folder.")
    return path


@dataclass(frozen=True, slots=True)
class _Downloader:
    """Downloads files until `stop` is set."""

    open_file: OpenFile
    on_progress: ProgressCallback | None
    stop: Event = field(default_factory=Event)

    def download(self, partial: Path, file: PublishedFile) -> None:
        """Complete a partial file, retrying as long as it grows. One that is damaged is deleted."""
        failures = damaged = 0
        while not self.stop.is_set() and not _is_complete(partial, file):
            size = _size_bytes(partial)
            if size >= file.size_bytes:
                partial.unlink()
                damaged += 1
                if damaged > 1:
                    raise Damaged(f"{file.name} was received twice with content that differs from the published file.")
                size = 0
            problem: ClientError = Damaged(
                f"{file.name} was received incomplete several times. A proxy may shorten or compress it."
            )
            try:
                with errors_named(partial):
                    self._resume(partial, file, size)
            except Unreachable as interruption:
                problem = interruption
            failures = 0 if _size_bytes(partial) > size else failures + 1
            if failures >= _MAX_ATTEMPTS_WITHOUT_PROGRESS:
                if isinstance(problem, Damaged):
                    partial.unlink(missing_ok=True)
                raise problem
            if failures or isinstance(problem, Unreachable):
                self.stop.wait(_FIRST_WAIT_SECONDS * 2.0**failures)

    def _resume(self, partial: Path, file: PublishedFile, offset: int) -> None:
        with self.open_file(file, offset) as (start, chunks):
            if self.stop.is_set():
                return
            with _open_private(partial) as target:
                target.seek(start)
                target.truncate()
                for chunk in chunks:
                    if self.stop.is_set():
                        return
                    # One byte too many is enough to find the wrong size. A server must not fill the disk.
                    target.write(chunk[: max(file.size_bytes + 1 - target.tell(), 0)])
                    if target.tell() > file.size_bytes:
                        break
                    if self.on_progress is not None:
                        self.on_progress(file, target.tell())
                target.flush()
                os.fsync(target.fileno())


def _download_all(folder: Path, files: Sequence[PublishedFile], downloader: _Downloader) -> None:
    """Download several files in parallel. The first error stops all of them.

    The threads are daemons, which those of ThreadPoolExecutor cannot be: a thread that waits for the network must not
    delay the end of an interrupted process.
    """
    remaining, outcomes = SimpleQueue[PublishedFile](), SimpleQueue[BaseException | None]()
    for file in files:
        remaining.put(file)

    def work() -> None:
        with suppress(Empty):
            while not downloader.stop.is_set():
                file = remaining.get_nowait()
                try:
                    downloader.download(_partial_path(folder, file), file)
                except BaseException as fault:  # noqa: BLE001 - raised in the thread of the caller
                    outcomes.put(fault)
                else:
                    outcomes.put(None)

    threads: list[Thread] = []
    try:
        for number in range(min(_MAX_PARALLEL_DOWNLOADS, len(files))):
            thread = Thread(target=work, name=f"fetch-{number}", daemon=True)
            thread.start()
            threads.append(thread)
        partials = [_partial_path(folder, file) for file in files]
        for _ in files:
            fault = _next_outcome(outcomes, partials)
            if fault is not None:
                raise fault
    finally:
        downloader.stop.set()
        deadline = time.monotonic() + _MAX_STOP_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _next_outcome(outcomes: SimpleQueue[BaseException | None], partials: Sequence[Path]) -> BaseException | None:
    """Return the outcome of the download that ends next. Raises Unreachable when the partial files hardly change.

    Each byte renews the timeout of its connection and the attempts for its file.
    """
    while True:
        size, until = sum(map(_size_bytes, partials)), time.monotonic() + _STALL_SECONDS
        # In short waits, because Ctrl-C immediately before a wait does not end it.
        while time.monotonic() < until:
            with suppress(Empty):
                return outcomes.get(timeout=_OUTCOME_POLL_SECONDS)
        if abs(sum(map(_size_bytes, partials)) - size) < _MIN_PROGRESS_BYTES:
            raise Unreachable("The service sends the files too slowly. Try again later.")


def _is_complete(path: Path, file: PublishedFile) -> bool:
    if path.is_symlink() or _size_bytes(path) != file.size_bytes:
        return False
    return sha256_of(path) == file.sha256


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the content of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _size_bytes(path: Path) -> int:
    """Return the size of a file, 0 when it does not exist. No published file is empty."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _make_private(path: Path) -> None:
    """Set mode 0600, which a copy or an older program may have changed."""
    if sys.platform != "win32" and stat.S_IMODE(path.stat().st_mode) != _PRIVATE_MODE:
        path.chmod(_PRIVATE_MODE)


def _open_private(path: Path) -> BinaryIO:
    """Open a file for writing without truncating it, and set mode 0600. A symbolic or hard link is replaced."""
    with suppress(FileNotFoundError):
        if path.is_symlink() or path.stat().st_nlink > 1:
            path.unlink()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), _PRIVATE_MODE)
    if sys.platform != "win32":
        os.fchmod(handle, _PRIVATE_MODE)
    return os.fdopen(handle, "r+b")


def _partial_path(folder: Path, file: PublishedFile) -> Path:
    return folder / f".{file.name}.{file.sha256[:16]}{_PARTIAL_SUFFIX}"


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file, and one byte more than `max_bytes` of a larger one.

    Raises FileNotFoundError, and WrongUse for a pipe or device, which could deliver nothing or never end.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise WrongUse(f"{path} is not a regular file. Remove it.")
    with os.fdopen(handle, "rb") as file:
        return file.read(max_bytes + 1)


def replace_private(path: Path, text: str) -> None:
    """Replace a file atomically, with mode 0600. An error names it, and leaves it unchanged."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        temporary.unlink(missing_ok=True)
        # Exclusive, so that it does not follow a link to another file.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_MODE)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as fault:
        if isinstance(fault, OSError):
            fault.filename = str(path)
        # It may contain a part of a token.
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Add a path to an OSError without a file name, such as that of a failed write."""
    try:
        yield
    except OSError as fault:
        fault.filename = fault.filename or str(path)
        raise


@contextmanager
def locked(folder: Path, wait: LockWait = NO_WAIT) -> Iterator[None]:
    """Create a folder if necessary and hold its lock. The system releases it when the process ends.

    Raises Busy when another process updates the folder for longer than the wait.
    """
    if sys.platform == "win32":
        make_private_folder(folder)
        yield
        return
    with errors_named(folder):
        handle = wait.acquire(lambda: _lock(folder), f"{folder}: another process updates this folder.")
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path) -> int | None:
    """Return a handle with the lock of a folder, None when another process has it."""
    import fcntl

    make_private_folder(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous holder may have deleted the folder.
        if os.path.samestat(os.fstat(handle), folder.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None
