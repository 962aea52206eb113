"""Scans a file with DuckDB 1.5 and keys that expire. Each vector of rows waits until the newest key has expired.

`python duckdb_scan.py ENDPOINT URL LOG`, in the environment of `tools/setup-duckdb`, prints the number of rows. Keys
come from the profile `daybreak` of AWS_CONFIG_FILE, and `LOG` has the expiry of each in seconds.
"""

import importlib
import sys
import time
from pathlib import Path

import duckdb

endpoint, url, log = sys.argv[1:]
connection = duckdb.connect()
for name in ("httpfs", "aws"):
    folder = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
    [extension] = folder.rglob("*.duckdb_extension")
    connection.execute(f"INSTALL '{extension}'")
    connection.execute(f"LOAD {name}")
connection.execute("SET threads = 1")
connection.execute(
    "CREATE SECRET (TYPE s3, PROVIDER credential_chain, CHAIN 'process', PROFILE 'daybreak', REFRESH auto, "
    f"ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
)
passed = ""


def wait_for_expiry(row: str) -> str:
    """Wait until the newest key has expired, once for each key."""
    global passed  # noqa: PLW0603
    newest = Path(log).read_text("utf-8").split()[-1]
    while newest != passed and time.time() <= float(newest):
        time.sleep(0.05)
    passed = newest
    return row


connection.create_function("wait_for_expiry", wait_for_expiry, ["VARCHAR"], "VARCHAR")
[(rows,)] = connection.execute(f"SELECT count(wait_for_expiry(MEMBER_ID)) FROM '{url}'").fetchall()
print(rows)
