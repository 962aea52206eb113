"""Examples at the end of each command's help: a purpose and the command line."""

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("Try it on a generated platform", "daybreakd demo"),
        ("Create a folder, then set source.location in its daybreak.toml", "daybreakd init exports"),
        ("Check that everything works", "daybreakd doctor"),
        ("Build and publish the first files", "daybreakd snapshot run"),
        ("Serve them, and build new ones every day", "daybreakd serve"),
    ),
    "init": (
        ("Use Parquet files in exports/platform, one per table", "daybreakd init exports"),
        (
            "Use a platform in PostgreSQL",
            "daybreakd init exports --engine postgresql \\\n    --source postgresql://reader@db.internal/platform",
        ),
    ),
    "serve": (
        ("Serve, and build files every day", "daybreakd serve"),
        ("Use another port for one run", "DAYBREAK_LISTEN=127.0.0.1:9000 daybreakd serve"),
    ),
    "web": (("Serve without building files", "daybreakd web -c exports/daybreak.toml"),),
    "builder": (("Build files without serving them", "daybreakd builder -c exports/daybreak.toml"),),
    "migrate": (("Migrate once after an upgrade, before the nodes start", "daybreakd migrate"),),
    "doctor": (
        ("Run before the first start, and to find problems", "daybreakd doctor -c exports/daybreak.toml"),
        ("Write one line per check, for a monitoring program", "daybreakd doctor --deep --json"),
    ),
    "demo": (
        ("Use ./daybreak-demo and http://127.0.0.1:8400", "daybreakd demo"),
        (
            "Use a larger platform and another folder",
            "daybreakd demo /tmp/big --leaders 500 --members 2000000 --port 8401",
        ),
        ("Compare files with the source, then exit", "daybreakd demo --check"),
    ),
    "snapshot": (
        ("Build and publish files now", "daybreakd snapshot run"),
        ("List recent runs and the freshness of the files", "daybreakd snapshot list"),
        ("Show why a snapshot is held; the start of its id is enough", "daybreakd snapshot show 4bd15f0c"),
        ("Forget a kept snapshot whose files are lost", 'daybreakd snapshot forget 4bd15f0c --reason "disk failed"'),
        ("Read all published files, and have the next run write damaged ones", "daybreakd snapshot verify --repair"),
        ("Publish a held snapshot", 'daybreakd snapshot publish 4bd15f0c --accept "spring clean-up"'),
    ),
    "rules": (("Print the rules that snapshot.models_dir implies", "daybreakd rules"),),
    "files": (("Copy all files to a bucket, before files.url changes", "daybreakd files copy s3://exports/daybreak"),),
    "member": (
        ("List the files with rows of a Member", "daybreakd member erase MEMBER_ID --dry-run"),
        ("Erase a Member that the platform has deleted", "daybreakd member erase MEMBER_ID"),
        ("Export the receipts", "daybreakd member receipts --json > receipts.json"),
    ),
    "directory": (
        ("Preview an import", "daybreakd directory import accounts.json --dry-run"),
        ("Copy accounts and seats to another service", "daybreakd directory export > accounts.json"),
        ("Read them from the platform, with the queries in [directory]", "daybreakd directory sync"),
    ),
    "seat": (
        ("List all seats", "daybreakd seat list"),
        ("Set a password, entered twice", "daybreakd seat set-password ana@example.org"),
        ("Print a link that sets a password, to pass on", "daybreakd seat reset-password ana@example.org"),
        ("Mail a link that sets the first password", "daybreakd seat invite ana@example.org"),
        ("Set up a second factor with its owner", "daybreakd seat enrol ana@example.org"),
        ("Show the seat the operator pages", "daybreakd seat grant-operator ana@example.org"),
        ("Disable a seat", "daybreakd seat disable ana@example.org"),
        ("End the sessions on a lost computer", "daybreakd seat sign-out ana@example.org"),
        ("Bind a seat to a user of single sign-on", "daybreakd seat bind ana@example.org 248289761001"),
        ("Remove the second factor of a lost phone", "daybreakd seat reset-second-factor ana@example.org"),
    ),
    "token": (
        (
            "Create a token for a nightly script",
            "daybreakd token create --seat ana@example.org \\\n    --account 7d909222-adf5-4547-93e0-e8f60c50f980",
        ),
        ("List the tokens of a seat, with their last use", "daybreakd token list --seat ana@example.org"),
        ("List the tokens that expire within two weeks", "daybreakd token list --expiring 14d"),
        (
            "Accept a token from one network only",
            "daybreakd token change 1d9b0c7e-52f4-4d0a-9e3b-7a1c8f60d2b5 \\\n    --allow 203.0.113.0/24",
        ),
        ("Revoke tokens in a file that became public", "daybreakd token revoke --leaked public.log"),
    ),
    "events": (
        ("List the deliveries that failed", "daybreakd events list --state failed"),
        ("Attempt one of them again", "daybreakd events retry 5c1d0b9f3a7e42688d90e1f24b6c7a35"),
        (
            "Send a test event to the webhooks of an account",
            "daybreakd events test 7d909222-adf5-4547-93e0-e8f60c50f980",
        ),
    ),
    "keys": (
        ("Show which key signs", "daybreakd keys list"),
        ("Change the signing key without interruption", "daybreakd keys rotate"),
        ("Revoke a key that others may have", "daybreakd keys revoke 5f2c90ab"),
    ),
    "trust": (
        ("Print the keys whose signatures to accept", "daybreakd trust show"),
        ("Replace the CA; both are valid for a while", "daybreakd trust rotate --recovery-key /media/usb/recovery"),
        ("Revoke the signatures of a version", "daybreakd trust revoke 48"),
        ("Revoke a CA that others may have", "daybreakd trust revoke --ca --recovery-key /media/usb/recovery"),
        ("Continue after a restore from a backup", "daybreakd trust resume-above 48"),
    ),
    "audit": (
        ("Print the logins of the last two hours", "daybreakd audit --action login --since 2h"),
        ("Print new events as they occur", "daybreakd audit --follow"),
        ("Print downloads as JSON", "daybreakd audit --action file.fetched --json --limit 1000"),
    ),
    "completion": (
        (
            "Write the script, then add to ~/.bashrc: source ~/.daybreakd-completion",
            "daybreakd completion bash > ~/.daybreakd-completion",
        ),
    ),
    "state": (
        (
            "Move from one machine to several nodes",
            "daybreakd state copy sqlite:///exports/state.db \\\n    postgresql://daybreak@db/daybreak",
        ),
    ),
}


def examples_of(words: Sequence[str]) -> str:
    """Format the examples of a command, such as ["snapshot", "run"]. One without examples has those of its group, and
    `daybreakd` itself those of a first start.
    """
    known = EXAMPLES.get(" ".join(words[:1]), ())
    own = [each for each in known if f"daybreakd {' '.join(words[:2])} " in f"{each[1]} "] if words else known
    return "\n".join(["Examples:", *(f"  # {purpose}\n  {line}" for purpose, line in own or known)])
