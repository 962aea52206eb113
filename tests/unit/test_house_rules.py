"""Rules about the repository itself that no other tool checks."""

import ast
import hashlib
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_MODULE = 400

# Written in pieces, so that this file does not hold what it forbids.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("deb", "debian", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
    )
]
FORBIDDEN = {
    "the address of a registry": re.compile("|".join(re.escape(host) for host in REGISTRIES), re.IGNORECASE),
    "a path of one machine": re.compile(r"(?<![\w.$}-])/(?:work|shared|farm)/|/opt/p" + r"ypi|/tmp/b" + r"rief"),
    "the number of an issue": re.compile(
        r"\b(?:issues?|fix(?:es)?|closes?|refs?)\s+#\d+|\bissue[ -]\d+\b", re.IGNORECASE
    ),
    "who wrote it": re.compile(
        r"\b(?:cl" + r"aude|anth" + r"ropic|chat" + r"gpt|co-authored" + r"-by)\b", re.IGNORECASE
    ),
}
# Others' words: licences and vendored files stay as they came.
EXEMPT = re.compile(r"(?:^|/)(?:LICENSE|vendor(?:ed)?/.*)")


def tracked_files() -> list[Path]:
    """Every file of the repository; outside a checkout, every file beside what tools make."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        names = listing.stdout.decode().rstrip("\0").split("\0")
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    made = {".venv", ".git", "build", "dist", "__pycache__"}
    return [path for path in ROOT.rglob("*") if path.is_file() and not made & set(path.parts)]


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        if EXEMPT.search(name):
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or an archive


def modules() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for name, text in texts()
        for match in FORBIDDEN[what].finditer(text)
    ]
    assert found == []


def test_the_forbidden_is_recognised() -> None:
    """The patterns above can find something."""
    samples = {
        "the address of a registry": f"https://{REGISTRIES[0]}/simple",
        "a path of one machine": "see /wor" + "k/main",
        "the number of an issue": "fixes " + "#12",
        "who wrote it": "Co-Authored" + "-By: somebody",
    }
    assert {what for what, text in samples.items() if FORBIDDEN[what].search(text)} == set(FORBIDDEN)


def test_lock_files_pin_every_package_by_hash_and_name_no_address() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text, name
        assert "--index-url" not in text, name
        entries = re.split(r"\n(?=\S)", text.strip())
        unpinned = [entry.splitlines()[0] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry]
        assert unpinned == [], name


def test_the_lock_file_of_azurite_pins_every_package_by_hash_and_names_no_address() -> None:
    folder = ROOT / "tests" / "parts" / "azurite"
    locked = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    (asked,) = json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"].items()
    assert ("azurite", locked["node_modules/azurite"]["version"]) == asked
    assert locked.pop("")["dependencies"] == dict([asked])
    assert [name for name, package in locked.items() if not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in locked.items() if "resolved" in package] == []


def test_both_lock_files_agree() -> None:
    def pins(name: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for package, version in re.findall(
            r"^([\w.-]+)==([^\s;]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE
        ):
            found.setdefault(package, set()).add(version)
        return found

    service, everything = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {package: everything.get(package) for package in service} == service


def test_lock_files_cover_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    server = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["server"]
    everything = server + project["project"]["optional-dependencies"]["spark"] + project["dependency-groups"]["dev"]
    for name, wanted in (("requirements.lock", server), ("requirements-dev.lock", everything)):
        locked = set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        asked = {re.split(r"[\[<>=;~! ]", requirement)[0].lower().replace("_", "-") for requirement in wanted}
        assert asked - locked == set(), f"{name}: run make lock"


def vendored_files() -> list[Path]:
    return [
        path
        for path in tracked_files()
        if {"vendored", "vendor"} & set(path.relative_to(ROOT).parts[:-1]) and path.name != "SHA256SUMS"
    ]


def test_vendored_files_are_what_they_were() -> None:
    for path in vendored_files():
        sums = next((up / "SHA256SUMS" for up in path.parents if (up / "SHA256SUMS").exists()), None)
        assert sums is not None, f"{path} has no SHA256SUMS beside or above it"
        listed: dict[str, str] = {}
        for line in sums.read_text(encoding="utf-8").splitlines():
            digest, _, listed_name = line.partition("  ")
            listed[listed_name] = digest
        name = path.relative_to(sums.parent).as_posix()
        assert listed.get(name) == hashlib.sha256(path.read_bytes()).hexdigest(), f"{name} in {sums}"


def test_vendored_files_have_a_licence() -> None:
    for folder in {path.parent for path in vendored_files()}:
        licences = [
            path
            for path in folder.iterdir()
            if re.search(r"licen[cs]e|copying|notice", path.name, re.IGNORECASE)
            or (path.name.startswith("PROVENANCE") and "licen" in path.read_text(encoding="utf-8").lower())
        ]
        assert licences, f"{folder} says nothing of a licence"


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        path.relative_to(ROOT).as_posix()
        for path in modules()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_modules_stay_short_enough_to_read() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_no_module_is_a_drawer_for_anything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc", "stuff"}
    assert [path for path in modules() if path.stem in drawers or path.parent.name in drawers] == []


def test_every_make_target_that_pages_name_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        # In code only: "make sure" is English.
        code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(encoding="utf-8"), re.DOTALL))
        named = set(re.findall(r"(?:^\s*(?:\$ )?|`|&& )make ([a-z]+)", code, re.MULTILINE))
        assert named <= targets, f"{page} names {named - targets}"


def test_continuous_integration_runs_the_commands_that_people_run() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make check" in script
    assert "make test" in script
    assert "make test" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for path in tracked_files():
        if path.suffix != ".md" or EXEMPT.search(path.relative_to(ROOT).as_posix()):
            continue
        text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:|#", target):
                continue
            if not (path.parent / target.partition("#")[0]).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []
