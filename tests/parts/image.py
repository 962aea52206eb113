"""The container image of `deploy/Dockerfile`, built without a registry, and processes in it without a runtime.

`mmdebstrap` makes the base, `buildah` builds, and a process gets its own mounts and process ids with `unshare`. All
three are Debian packages. The build needs root, and the networks of Debian and of the Python package index.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.parts.presence import absent
from tests.parts.processes import Running, running
from tests.parts.waiting import wait_until

ROOT = Path(__file__).parents[2]
# What debian:bookworm-slim leaves out.
_LEFT_OUT = ("doc", "info", "locale", "man")
# A read-only root, a temporary folder in memory, one volume, and a user without capabilities. $1 is the root, $2 the
# volume, $3 the user, $4 the working directory; the program and its environment follow.
_START = """
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=1777,size=100m tmpfs "$1/tmp"
mount --bind "$2" "$1/srv/daybreak"
mount -o remount,bind,ro "$1"
root=$1 user=$3 folder=$4
shift 4
exec chroot "$root" setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all env -i -C "$folder" "$@"
"""


@dataclass(frozen=True)
class Image:
    """A built image: its files, its size in bytes and its configuration."""

    root: Path
    size: int
    config: Mapping[str, Any]

    def command(
        self, data: Path, arguments: Sequence[str], environment: Mapping[str, str], entrypoint: Sequence[str] | None
    ) -> list[str | Path]:
        """Return the command that runs a program of the image as a container runtime does."""
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
        program = [*(self.config["Entrypoint"] if entrypoint is None else entrypoint), *arguments]
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        place = [str(self.root), str(data), self.config["User"], self.config["WorkingDir"]]
        return [*namespaces, "sh", "-euc", _START, "sh", *place, *variables, *program]

    def run(
        self, data: Path, arguments: Sequence[str], environment: Mapping[str, str], entrypoint: Sequence[str]
    ) -> str:
        """Run a program of the image to its end, and return its output."""
        command = self.command(data, arguments, environment, entrypoint)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    @contextmanager
    def running(
        self, data: Path, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> Iterator[tuple[Running, psutil.Process]]:
        """Run the entry point of the image; yield the program, and its first process, which receives signals."""
        with running(self.command(data, arguments, environment, None)) as program:
            parent = psutil.Process(program.pid)

            def first() -> list[psutil.Process]:
                assert program.alive(), program.log()
                return [each for each in parent.children() if each.name() == "tini"]

            (process,) = wait_until(first, what="the first process of the container")
            yield program, process


def _program(name: str) -> str:
    return shutil.which(name) or absent(name, f"apt-get install {name}")


def _build(folder: Path) -> Image:
    store = [_program("buildah"), "--storage-driver", "vfs", "--root", str(folder / "store")]
    store += ["--runroot", str(folder / "run")]

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "BUILDAH_ISOLATION": "chroot"}
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout.strip()

    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT]
    merged = ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--include=usr-is-merged"]
    run(_program("mmdebstrap"), "--quiet", "--variant=apt", *merged, *left_out, "bookworm", folder / "base.tar")
    wheels, lock = folder / "wheels", ROOT / "requirements.lock"
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", lock, "-d", wheels)
    container = run(*store, "from", "scratch")
    run(*store, "add", container, folder / "base.tar")
    run(*store, "commit", container, "localhost/base")
    arguments = ["BASE=localhost/base", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheels"]
    options = [word for each in arguments for word in ("--build-arg", each)] + ["-v", f"{wheels}:/wheels:ro"]
    run(*store, "bud", "--format", "docker", *options, "-f", ROOT / "deploy/Dockerfile", "-t", "daybreak", ROOT)
    (config,) = [json.loads(run(*store, "inspect", "--type", "image", "daybreak"))["Docker"]["config"]]
    container = run(*store, "from", "localhost/daybreak")
    root = Path(run(*store, "mount", container))
    size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return Image(root, size, config)


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """Return the image of this source."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode:
        # Also skipped in CI, whose jobs are not root.
        pytest.skip("building an image needs root, and namespaces for mounts and processes")
    # On a disk: the stages of the build need several GB.
    with tempfile.TemporaryDirectory(prefix="daybreak-image-", dir="/var/tmp") as folder:
        yield _build(Path(folder))
