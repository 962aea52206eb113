"""Examples that the help of each verb ends with: what is wanted, and the line that does it."""

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("See it run on a made-up platform", "daybreakd demo"),
        ("A folder of your own; then set source.location in its daybreak.toml", "daybreakd init exports"),
        ("Is everything there and right?", "daybreakd doctor"),
    ),
    "init": (
        ("Parquet files in exports/platform, one a table", "daybreakd init exports"),
        (
            "A platform on PostgreSQL",
            "daybreakd init exports --engine postgresql \\\n    --source postgresql://reader@db.internal/platform",
        ),
    ),
    "serve": (
        ("Serve, and make files every day", "daybreakd serve"),
        ("A node that only serves", "daybreakd serve --no-builder"),
        ("Another port, for this time", "DAYBREAK_LISTEN=127.0.0.1:9000 daybreakd serve"),
    ),
    "migrate": (("After an upgrade, once, before the nodes start", "daybreakd migrate"),),
    "doctor": (("Before the first start, and when something is odd", "daybreakd doctor -c exports/daybreak.toml"),),
    "demo": (
        ("In ./daybreak-demo, on http://127.0.0.1:8400", "daybreakd demo"),
        ("A larger one elsewhere", "daybreakd demo /tmp/big --leaders 500 --members 2000000 --port 8401"),
        ("Make it, compare every file with the source, end", "daybreakd demo --check"),
    ),
    "snapshot": (
        ("Files now, published at once", "daybreakd snapshot run"),
        ("What runs there were, and how fresh the files are", "daybreakd snapshot list"),
        ("Why was this one held back? (the start of its id will do)", "daybreakd snapshot show 4bd15f0c"),
        ("It is right as it is", 'daybreakd snapshot publish 4bd15f0c --accept "spring clean-up"'),
    ),
    "directory": (
        ("What would change?", "daybreakd directory import accounts.json --dry-run"),
        ("Copy accounts and seats to another service", "daybreakd directory export > accounts.json"),
        ("From the platform's own tables, by the queries in [directory]", "daybreakd directory sync"),
    ),
    "seat": (
        ("Who is there?", "daybreakd seat list"),
        ("A password for somebody, typed twice", "daybreakd seat set-password ana@example.org"),
        ("Somebody left", "daybreakd seat disable ana@example.org"),
        ("Somebody lost the phone with the authenticator app", "daybreakd seat reset-second-factor ana@example.org"),
    ),
    "token": (
        (
            "For a nightly script",
            "daybreakd token create --seat ana@example.org \\\n    --account 7d909222-adf5-4547-93e0-e8f60c50f980",
        ),
        ("Which are used?", "daybreakd token list --seat ana@example.org"),
        ("A file with tokens in it became public", "daybreakd token revoke --leaked public.log"),
    ),
    "keys": (
        ("Which key signs?", "daybreakd keys list"),
        ("Change it: nobody is signed out, no request fails", "daybreakd keys rotate"),
    ),
    "audit": (
        ("Logins of the last two hours", "daybreakd audit --action login --since 2h"),
        ("Everything from now on", "daybreakd audit --follow"),
        ("What left an account, for a program", "daybreakd audit --action file.fetched --json --limit 1000"),
    ),
    "completion": (
        ("Read it in ~/.bashrc: source ~/.daybreakd-completion", "daybreakd completion bash > ~/.daybreakd-completion"),
    ),
    "state": (
        (
            "From one machine to many nodes",
            "daybreakd state copy sqlite:///exports/state.db \\\n    postgresql://daybreak@db/daybreak",
        ),
    ),
}


def examples_of(verb: str) -> str:
    """The end of a verb's help; "" is the command itself."""
    return "\n".join(["Examples:", *(f"  # {wanted}\n  {line}" for wanted, line in EXAMPLES[verb])])
