"""Programs that record their arguments, which every user of a machine can list while the program runs."""

import shutil
from pathlib import Path

PROGRAMS = ("curl", "wget", "python", "python3", "psql", "daybreak", "daybreakd")


def record_arguments(folder: Path, path: str) -> Path:
    """Create a program in `folder` for each program in `path`: it records its arguments, and runs the other one.

    Returns:
        The file with the arguments of all calls.
    """
    folder.mkdir()
    recorded = folder / "arguments.txt"
    recorded.touch()
    for name in PROGRAMS:
        found = shutil.which(name, path=path)
        if found is not None:
            program = folder / name
            program.write_text(f'#!/bin/sh\nprintf "{name} %s\\n" "$*" >> "{recorded}"\nexec "{found}" "$@"\n', "utf-8")
            program.chmod(0o755)
    return recorded
