"""Examples and environment variables of `daybreak --help` and of the reference page."""

EXAMPLES = (
    ("Sign in. Prompts for email, password and code", "daybreak login https://export.example.org"),
    ("List your accounts, and select one by a part of its name", "daybreak accounts"),
    ("", 'daybreak use "North Light"'),
    ("Fetch all nine files as CSV; later runs fetch only changed files", "daybreak fetch exports"),
    ("Fetch two files as JSON", "daybreak fetch exports --only members,campaigns --format json"),
    ("Fetch all your accounts, each into its own folder", "daybreak fetch exports --all-accounts"),
    ("Fetch daily from cron, with the variables below", "daybreak fetch exports --wait 2h --quiet"),
    ("Keep a database in step, from cron as often as you like", "daybreak sync duckdb:///exports.duckdb"),
    ("", "daybreak sync postgresql://user@host/database --all-accounts --quiet"),
    ("Prove that the tables equal the published files", "daybreak sync duckdb:///exports.duckdb --verify"),
    ("Prove that the files are signed, complete and current", "daybreak verify exports --complete"),
    ("Print a link for another program", "daybreak link members"),
    ("Print SQL that creates tables for the files", "daybreak schema --ddl postgresql"),
    ("Print Python that loads the fetched files into pandas with the right types", "daybreak types --pandas members"),
    ("Write a profile for Delta Sharing clients, with the API token in use", "daybreak share-profile daybreak.share"),
    ("Print credentials for aws, boto3 and other S3 tools, from `credential_process`", "daybreak s3-credentials"),
    ("Sign in to a second service, and use it", "daybreak login https://eu.example.org --profile eu"),
    ("", "daybreak fetch exports-eu --profile eu"),
)
VARIABLES = {
    "DAYBREAK_SERVICE": "URL of the service. With a token, no login is needed.",
    "DAYBREAK_TOKEN": "API token or session token.",
    "DAYBREAK_TOKEN_FILE": "File with the token, in place of DAYBREAK_TOKEN.",
    "DAYBREAK_ACCOUNT": "client_id of the account.",
    "DAYBREAK_PLAIN_HTTP": "Any value allows http:// over a network.",
    "DAYBREAK_PROFILE": "Name of a saved sign-in, or the path of its file.",
}


def epilogue() -> str:
    """Return the examples and variables as text for a terminal."""
    return "\n".join(
        [
            "Examples:",
            *(f"  # {purpose}\n  {line}" if purpose else f"  {line}" for purpose, line in EXAMPLES),
            "\nVariables:",
            *(f"  {name:<19} {text}" for name, text in VARIABLES.items()),
        ]
    )
