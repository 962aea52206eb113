"""Find wording that the style rules of CONTRIBUTING.md replace: `python -m tools.prose [PATH ...]`.

Reads docstrings, comments, texts and Markdown. Code blocks and code spans of Markdown are skipped.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Paths that are checked by default.
CHECKED = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "src",
    "tests",
    "tools",
)
SUFFIXES = {".py", ".md", ".html", ".js", ".c", ".sql", ".toml"}
EXEMPT = re.compile(r"(^|/)(vendor(ed)?|common_passwords|migrations)/|^tools/prose\.py$|^docs/changelog\.md$")
REPLACEMENTS: Mapping[str, str] = {
    r"hang(s|ing)? on": "depend on",
    r"(no|some|every)body": "the actor: no client, another process, every reader",
    r"who(so)?ever": "the actor",
    r"tells?|told": "report, receive",
    r"stands? (in|at|on|beside|behind)": "is in, is on",
    r"(is|are|was|were) (no )?good": "is valid, is invalid",
    r"good for": "valid for",
    r"what (came|comes|becomes|became) of": "the result of",
    r"by (itself|themselves)": "automatically, alone",
    r"of (its|their) own": "separate, dedicated",
    r"at once": "immediately, at the same time",
    r"so (many|much) (as|that)": "up to",
    r"the (newest|oldest|first|last) so many": "maximum number of",
    r"as many as": "up to",
    r"beside": "next to, in addition to",
    r"mend(s|ed|ing)?": "fix",
    r"dear(er|est)?": "expensive",
    r"(holds?|held) back": "block, hold",
    r"look(s|ed|ing)? after": "manage, check",
    r"gives? (back|out|up its|no|what)": "return, issue",
    r"in vain": "without success",
    r"for good": "permanently",
    r"all the same": "anyway",
    r"(put|set) aside": "store, keep",
    r"lies? (in|at|there|beside|ahead)": "is in, is stored in",
    r"made anew|make anew|anew": "again",
    r"owed": "required",
    r"foretold|foretell": "predicted",
    r"the least it": "the minimum",
    r"well again": "recovers",
}
PATTERN = re.compile(r"\b(?:" + "|".join(f"(?:{pattern})" for pattern in REPLACEMENTS) + r")\b", re.IGNORECASE)


def findings(paths: Sequence[str]) -> Iterator[str]:
    """Yield one line per finding: place, words, replacement."""
    for path in _files(paths):
        for number, text in _texts(path):
            for match in PATTERN.finditer(text):
                yield f"{path.relative_to(ROOT)}:{number}: {match[0]!r}. Use: {_replacement(match[0])}."


def _files(paths: Sequence[str]) -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in SUFFIXES and path.is_file() and not EXEMPT.search(name):
            yield path


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text("utf-8")
    if path.suffix == ".py":
        yield from _python_texts(source)
    elif path.suffix == ".md":
        yield from _markdown_texts(source)
    else:
        yield from enumerate(source.splitlines(), 1)


def _python_texts(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.splitlines()):
                yield node.lineno + offset, line


def _markdown_texts(source: str) -> Iterator[tuple[int, str]]:
    in_block = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block:
            yield number, re.sub(r"`[^`]*`", "", line)


def _replacement(words: str) -> str:
    return next(text for pattern, text in REPLACEMENTS.items() if re.fullmatch(pattern, words, re.IGNORECASE))


def main(arguments: Sequence[str]) -> int:
    """Print the findings and return the exit code."""
    found = list(findings(arguments or CHECKED))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
