"""Examples at the end of each command's help: a purpose and the command line. They are in `examples.txt`."""

from collections.abc import Mapping, Sequence
from pathlib import Path


def _read_examples() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return purposes and command lines by verb. Those of the key "" are for a first start."""
    found = {}
    for section in Path(__file__).with_name("examples.txt").read_text("utf-8").split("== ")[1:]:
        verb, *examples = section.strip().split("\n# ")
        parts = (each.partition("\n") for each in examples)
        found["" if verb == "first start" else verb] = tuple((purpose, line) for purpose, _, line in parts)
    return found


EXAMPLES = _read_examples()


def examples_of(words: Sequence[str]) -> str:
    """Format the examples of a command, such as ["snapshot", "run"]. One without examples has those of its group, and
    `daybreakd` itself those of a first start.
    """
    known = EXAMPLES.get(" ".join(words[:1]), ())
    own = [each for each in known if f"daybreakd {' '.join(words[:2])} " in f"{each[1]} "] if words else known
    return "\n".join(["Examples:", *(f"  # {purpose}\n  {line}" for purpose, line in own or known)])
