"""Rules about files of the repository that no other tool checks."""

import ast
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_MODULE_LINES = 400
LOCK_FILES = ("requirements.lock", "requirements-unit.lock", "requirements-dev.lock")

# Split, so that this file does not contain the forbidden text.
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
    "registry address": re.compile("|".join(re.escape(host) for host in REGISTRIES), re.IGNORECASE),
    "path of one machine": re.compile(r"(?<![\w.$}-])/(?:work|shared|farm)/|/opt/p" + r"ypi|/tmp/b" + r"rief"),
    "issue number": re.compile(r"\b(?:issues?|fix(?:es)?|closes?|refs?)\s+#\d+|\bissue[ -]\d+\b", re.IGNORECASE),
    "authoring tool": re.compile(
        r"\b(?:cl" + r"aude|anth" + r"ropic|chat" + r"gpt|co-authored" + r"-by)\b", re.IGNORECASE
    ),
}
# Licenses and vendored files stay unchanged.
EXEMPT = re.compile(r"(?:^|/)(?:LICENSE|vendor(?:ed)?/.*)")


def tracked_files() -> list[Path]:
    """Return the files under version control; without git, all files except those that tools generate."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        names = listing.stdout.decode().rstrip("\0").split("\0")
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    generated = {".venv", ".git", "build", "dist", "__pycache__"}
    return [path for path in ROOT.rglob("*") if path.is_file() and not generated & set(path.parts)]


def text_files() -> Iterator[tuple[str, str]]:
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


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_file_contains_forbidden_text(kind: str) -> None:
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for name, text in text_files()
        for match in FORBIDDEN[kind].finditer(text)
    ]
    assert found == []


def test_forbidden_text_is_found() -> None:
    samples = {
        "registry address": f"https://{REGISTRIES[0]}/simple",
        "path of one machine": "see /wor" + "k/main",
        "issue number": "fixes " + "#12",
        "authoring tool": "Co-Authored" + "-By: a person",
    }
    assert {kind for kind, text in samples.items() if FORBIDDEN[kind].search(text)} == set(FORBIDDEN)


@pytest.mark.parametrize("name", LOCK_FILES)
def test_lock_file_pins_by_hash_without_addresses(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index-url" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert [entry.splitlines()[0] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", ["azurite", "oidc-provider"])
def test_npm_lock_files_pin_by_hash_without_addresses(name: str) -> None:
    folder = ROOT / "tests" / "parts" / name
    locked = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    (wanted,) = json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"].items()
    assert (name, locked[f"node_modules/{name}"]["version"]) == wanted
    assert locked.pop("")["dependencies"] == dict([wanted])
    assert [path for path, package in locked.items() if not package["integrity"].startswith("sha512-")] == []
    assert [path for path, package in locked.items() if "resolved" in package] == []


def test_larger_lock_files_contain_the_smaller() -> None:
    def pins(name: str) -> set[tuple[str, str]]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return set(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))

    service, unit, development = (pins(name) for name in LOCK_FILES)
    assert service < unit < development


def test_lock_files_cover_the_declared_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    service = project["project"]["dependencies"] + extras["server"]
    unit = service + groups["unit"]
    development = unit + extras["spark"] + groups["docs"] + [each for each in groups["dev"] if isinstance(each, str)]
    for name, declared in zip(LOCK_FILES, (service, unit, development), strict=True):
        locked = set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        wanted = {re.split(r"[\[<>=;~! ]", requirement)[0].lower().replace("_", "-") for requirement in declared}
        assert wanted - locked == set(), f"{name} is out of date. Run `make lock`."


def vendored_files() -> list[Path]:
    return [
        path
        for path in tracked_files()
        if {"vendored", "vendor"} & set(path.relative_to(ROOT).parts[:-1]) and path.name != "SHA256SUMS"
    ]


def test_vendored_files_have_their_recorded_digest() -> None:
    for path in vendored_files():
        sums = next((up / "SHA256SUMS" for up in path.parents if (up / "SHA256SUMS").exists()), None)
        assert sums is not None, f"no SHA256SUMS for {path}"
        recorded: dict[str, str] = {}
        for line in sums.read_text(encoding="utf-8").splitlines():
            digest, _, recorded_name = line.partition("  ")
            recorded[recorded_name] = digest
        name = path.relative_to(sums.parent).as_posix()
        assert recorded.get(name) == hashlib.sha256(path.read_bytes()).hexdigest(), f"{name} in {sums}"


def test_vendored_files_have_a_license() -> None:
    for folder in {path.parent for path in vendored_files()}:
        licenses = [
            path
            for path in folder.iterdir()
            if re.search(r"licen[cs]e|copying|notice", path.name, re.IGNORECASE)
            or (path.name.startswith("PROVENANCE") and "licen" in path.read_text(encoding="utf-8").lower())
        ]
        assert licenses, f"{folder} has no license"


def test_every_module_has_a_docstring() -> None:
    undocumented = [
        path.relative_to(ROOT).as_posix()
        for path in modules()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert undocumented == []


def test_modules_stay_short() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_MODULE_LINES} == {}


def test_no_module_has_a_catch_all_name() -> None:
    names = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc", "stuff"}
    assert [path for path in modules() if path.stem in names or path.parent.name in names] == []


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_documented_make_targets_exist() -> None:
    targets = make_targets()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        # Only in code: "make sure" is English.
        code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(encoding="utf-8"), re.DOTALL))
        named = set(re.findall(r"(?:^\s*(?:\$ )?|`|&& )make ([a-z-]+)", code, re.MULTILINE))
        assert named <= targets, f"{page} names {named - targets}"


def test_continuous_integration_runs_the_documented_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^step (make [a-z-]+)", script, re.MULTILINE) == ["make setup", "make check", "make test"]
    assert "make test" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_workflows_run_the_documented_commands() -> None:
    folder = ROOT / ".github" / "workflows"
    steps = set(re.findall(r"^ +- (make .+)$", (folder / "ci.yml").read_text(encoding="utf-8"), re.MULTILINE))
    test_folders = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    test_folders.remove("repository")  # part of `make check`
    assert steps == {
        "make check", *(f"make test TEST_ARGS=tests/{name}" for name in test_folders), "make test-release",
    }  # fmt: skip
    assert "- run: make test-random\n" in (folder / "nightly.yml").read_text(encoding="utf-8")


def test_workflows_run_existing_make_targets() -> None:
    targets = make_targets()
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").iterdir()]
    named = {target for text in texts for target in re.findall(r"\bmake ([a-z-]+)", text)}
    nightly = {"test-newest", "test-next-duckdb", "test-oldest"}
    assert nightly | {"check", "check-api", "coverage", "release"} <= named <= targets


def test_code_owners_name_existing_paths() -> None:
    lines = (ROOT / ".github" / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    owned = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert owned[0] == "*"
    assert [pattern for pattern in owned[1:] if not list(ROOT.glob(pattern.strip("/")))] == []


def test_release_files_name_no_registry(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        for member in archive:
            if (found := archive.extractfile(member)) is not None:
                contents[member.name] = found.read().decode("utf-8", "replace")
    assert len(contents) > 600
    registry = FORBIDDEN["registry address"]
    assert [name for name, text in contents.items() if registry.search(text)] == []


def test_vulnerability_check_refuses_skipped_packages() -> None:
    command = "bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock\n"
    for name in (".github/workflows/nightly.yml", "docs/contributing/release.md"):
        assert command in (ROOT / name).read_text(encoding="utf-8")


def test_workflows_pin_actions_by_commit() -> None:
    used = [
        action
        for path in (ROOT / ".github" / "workflows").iterdir()
        for action in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
    ]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


def replaced_in_the_process(source: str) -> Iterator[str]:
    """Yield the calls in a test that replace a name of a module of the standard library."""
    nodes = list(ast.walk(ast.parse(source)))
    imported = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.partition(".")[0] in sys.stdlib_module_names
    }
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            target = node.args[0]
            if isinstance(target, ast.Name) and target.id in imported:
                yield ast.unparse(node)


def test_tests_replace_no_function_of_the_whole_process() -> None:
    """Threads that libraries left behind would call the replacement."""
    assert list(replaced_in_the_process("import os\nmonkeypatch.setattr(os, 'unlink', None)"))
    tests = [(name, text) for name, text in text_files() if re.fullmatch("tests/.*[.]py", name)]
    assert [(name, call) for name, text in tests for call in replaced_in_the_process(text)] == []


def test_links_between_pages_resolve() -> None:
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
