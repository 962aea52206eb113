"""`python -m tests.parts.short_credentials KEYRING TOKEN_ID VERSION SECONDS LOG`: a credential process of AWS.

It issues a session key that expires after some seconds, and appends the expiry to the log.
"""

import json
import math
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from daybreak.credentials import keyring
from daybreak.credentials.s3_keys import session_key

ring, token_id, version, seconds, log = sys.argv[1:]
expires = math.ceil(time.time()) + int(seconds)
key = session_key(
    token_id,
    version=int(version),
    expires_at=datetime.fromtimestamp(expires, UTC),
    keyring=keyring.load(Path(ring)),
)
with Path(log).open("a", encoding="utf-8") as file:
    file.write(f"{expires}\n")
print(
    json.dumps(
        {
            "Version": 1,
            "AccessKeyId": key.access_key_id,
            "SecretAccessKey": key.secret,
            "SessionToken": key.session_token,
            "Expiration": datetime.fromtimestamp(expires, UTC).isoformat(),
        }
    )
)
