"""Damaged and hostile requests to S3, Iceberg and Delta Sharing. Only some of the credentials are invalid.

`{own}` is the account of the credential, `{other}` another one. Targets are sent as they are written.
"""

from collections.abc import Mapping
from typing import NamedTuple

_EXPIRES = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=DB/20261128/r/s3/aws4_request&X-Amz-Date=20261128T000000Z"
_FILE, _TABLE = "/{own}/latest/campaigns.csv.gz", "/iceberg/v1/{own}/namespaces/daybreak/tables/members"
_TOKENS = "/iceberg/v1/oauth/tokens"
_SHARED = "/sharing/v1/shares/{own}/schemas/daybreak/tables/members"


class Hostile(NamedTuple):
    """A request. Those to S3 are signed, with these headers; the others have the API token."""

    target: str
    headers: Mapping[str, str] = {}
    body: str = ""
    method: str = "GET"


S3 = (
    *(
        Hostile(target)
        for target in (
            "/{own}/%2e%2e/{other}/latest/campaigns.csv.gz",
            "/{own}/../{other}/latest/campaigns.csv.gz",
            "/{own}/latest/../../{other}/latest/campaigns.csv.gz",
            "/{own}%2F..%2F{other}/latest/campaigns.csv.gz",
            "/{own}/{other}/latest/campaigns.csv.gz",
            "//{other}/latest/campaigns.csv.gz",
            "/{other}%01/latest/campaigns.csv.gz",
            "/{own}/latest%2Fcampaigns.csv.gz",
            "/{own}/latest/campaigns.csv.gz%00",
            "/{own}/latest/campaigns.csv.gz/",
            "/{own}/latest//campaigns.csv.gz",
            "/{own}/latest/%ff%fe",
            "/{own}/%",
            "/{own}/%zz/%2",
            "/{own}/latest/%252e%252e%252f{other}",
            "/{own}/iceberg/members/data/../../../{other}/latest/campaigns.csv.gz",
            "/{own}/iceberg/members/data/" + "0" * 64 + ".parquet",
            "/{own}/iceberg/members/metadata/v9223372036854775808.metadata.json",
            "/{own}/v=9223372036854775808/campaigns.csv.gz",
            "/{own}/v=-1/campaigns.csv.gz",
            "/{own}/tables/members%1Fx/v=1/members.parquet",
            "/{own}/" + "a/" * 3000,
            "/{own}?list-type=2&prefix=%01%FF",
            "/{own}?list-type=2&prefix=" + "%F0%9F%92%A9" * 300,
            "/{own}?list-type=2&prefix=..%2F..%2F&delimiter=%2F",
            "/{own}?list-type=2&delimiter=latest%2Fcampaigns.csv.gz&max-keys=1",
            "/{own}?list-type=2&delimiter=e&prefix=late",
            "/{own}?list-type=2&continuation-token=e30%3D",
            "/{own}?list-type=2&continuation-token=%FF%FE",
            "/{own}?list-type=2&continuation-token=" + "A" * 6000,
            "/{own}?list-type=2&continuation-token=7c8%3D",
            "/{own}?list-type=2&max-keys=99999999999999999999",
            "/{own}?list-type=2&max-keys=%D9%A3",
            "/{own}?list-type=2&start-after=%EF%BF%BF&encoding-type=url",
            "/{own}?delimiter=%2F&marker=%01&max-keys=0",
            "/{own}?list-type=2&list-type=1&prefix=a&prefix=b",
            "/{own}?acl&location&versioning",
            "/{own}?" + "&".join(["prefix=x"] * 800),
            "/{own}?%3B=%26",
            _FILE + "?response-content-type=" + "%0D%0AX-Evil%3A%201",
            _FILE + "?response-expires=" + "x" * 5000,
            _FILE + "?versionId=null&partNumber=0",
            "/?continuation-token=%01&max-buckets=x",
            "/{other}?list-type=2",
            "/{other}/latest/campaigns.csv.gz?X-Amz-Security-Token=1.2.3",
        )
    ),
    *(
        Hostile(_FILE, {"Range": value})
        for value in (
            "bytes=0-99999999999999999999999999999",
            "bytes=99999999999999999999999999999-",
            "bytes=-99999999999999999999999999999",
            "bytes=" + "9" * 5000 + "-",
            "bytes=9223372036854775807-9223372036854775808",
            "bytes=-0",
            "bytes=5-2",
            "bytes=0-0,-1,1-1,2-2",
            "bytes=" + ",".join(f"{number}-{number}" for number in range(500)),
            "bytes=0-,0-,0-,0-,0-,0-,0-,0-",
            "bytes=\u0663-\u0664",
            "bytes=--1",
            "bytes=,,,",
            "lines=0-1",
        )
    ),
    Hostile(_FILE, {"If-Modified-Since": "Sat, 29 Oct 99999 19:43:31 GMT", "If-None-Match": '"' * 4000}),
    Hostile(_FILE, {"If-Range": "\xff", "Range": "bytes=0-1"}),
    Hostile(_FILE, {"X-Amz-Security-Token": "99999999999.0." + "0" * 64}),
    Hostile(_FILE, {"X-Amz-Checksum-Mode": "ENABLED," * 500}),
    Hostile(_FILE, {"X-Amz-Copy-Source": "/{other}/latest/campaigns.csv.gz"}, method="PUT"),
    Hostile("/{own}?delete", body="<Delete><Object>" * 500, method="POST"),
)
"""Signed requests to S3."""

UNSIGNED = (
    *(
        Hostile(f"{_FILE}?{_EXPIRES}&X-Amz-SignedHeaders=host&X-Amz-Signature={'0' * 64}&X-Amz-Expires={seconds}")
        for seconds in ("000000001" + "9" * 20, "000000001" + "9" * 5000, "\u0663", "1e9", "-1", "")
    ),
    Hostile(f"{_FILE}?{_EXPIRES.replace('20261128', '99999999')}&X-Amz-Expires=1"),
    *(
        Hostile(_FILE, {"Authorization": f"AWS4-HMAC-SHA256 {value}", "X-Amz-Date": "00010101T000000Z"})
        for value in (
            "",
            "Credential=,SignedHeaders=,Signature=",
            "Credential=DB/00010101/r/s3/aws4_request,SignedHeaders=host;x-amz-date,Signature=" + "0" * 64,
            "Credential=DSaa01" + "0" * 32 + "/00010101/r/s3/aws4_request,SignedHeaders=host;x-amz-date,Signature="
            + "0" * 64,
            "Credential=\xff\xfe,SignedHeaders=\xff,Signature=\xff",
            "Signature=a,Signature=b,Signature=c",
            "," * 5000,
        )
    ),
    Hostile(_FILE, {"Authorization": "AWS x:y"}),
)  # fmt: skip
"""Requests to S3 whose signature is malformed or wrong."""

WITH_TOKEN = (
    *(
        Hostile("/iceberg/v1/" + path)
        for path in (
            "config?warehouse={other}",
            "config?warehouse=%1F%ff",
            "config?warehouse={own}&warehouse={other}",
            "{other}/namespaces/daybreak/tables/members",
            "{own}%1F{other}/namespaces/daybreak/tables/members",
            "{own}/namespaces?parent=daybreak%1Fa%1Fb&pageToken=%01&pageSize=-1",
            "{own}/namespaces/daybreak%1Fdaybreak/tables",
            "{own}/namespaces/%1F/tables/members",
            "{own}/namespaces/daybreak/tables/members%1Fx",
            "{own}/namespaces/daybreak/tables/%2e%2e%2f%2e%2e",
            "{own}/namespaces/daybreak/tables/members%00",
            "{own}/namespaces/daybreak/tables/" + "m" * 7000,
            "{own}/namespaces/daybreak/tables/members/credentials?planId=%ff",
            "{own}/namespaces/DAYBREAK/tables/%ff",
            "{own}/../{other}/namespaces",
        )
    ),
    Hostile(_TABLE + "/metrics", body="[" * 15_000, method="POST"),
    Hostile(_TOKENS, body="grant_type=client_credentials&client_secret=%ff%00" + "&a" * 7000, method="POST"),
    Hostile(_TOKENS, body="\xff" * 8_000, method="POST"),
    Hostile("/iceberg/v1/transactions/commit", body="{", method="POST"),
    *(
        Hostile("/sharing/v1/shares" + path)
        for path in (
            "?maxResults=9223372036854775808",
            "?maxResults=0",
            "?pageToken=-1",
            "?pageToken=999999999",
            "?pageToken=9999999999999999999999",
            "?pageToken=%01%ff",
            "/{own}/all-tables?maxResults=1&pageToken=" + "9" * 7000,
            "/{other}/all-tables?pageToken=1",
            "/{own}%00/schemas",
            "/{own}/schemas/daybreak%1F/tables",
            "/{own}/schemas/daybreak/tables/members/version?startingTimestamp=9999-12-31T23:59:59.999999999Z",
            "/{own}/schemas/daybreak/tables/members/version?startingTimestamp=0000-00-00T00:00:00Z",
            "/{own}/schemas/daybreak/tables/members/version?startingTimestamp=0001-01-01T00:00:00%2B14:00",
            "/{own}/schemas/daybreak/tables/members/changes?startingVersion=9223372036854775807",
            "/{own}/schemas/daybreak/tables/members/changes?startingVersion=9223372036854775808",
            "/{own}/schemas/daybreak/tables/members/changes?startingVersion=0&endingVersion=9223372036854775807",
            "/{own}/schemas/daybreak/tables/members/changes?startingVersion=5&endingVersion=1",
            "/{own}/schemas/daybreak/tables/members/changes?startingVersion=%D9%A3",
            "/{own}/schemas/daybreak/tables/members/changes?startingTimestamp=9999-12-31T23:59:59Z&endingVersion=0",
            "/{other}/schemas/daybreak/tables/members/metadata",
        )
    ),
    Hostile(_SHARED + "/metadata", {"delta-sharing-capabilities": ";=;responseformat=" + "x," * 3000}),
    Hostile(_SHARED + "/metadata", {"delta-sharing-capabilities": "responseformat=\xff", "fileidhash": "\xff"}),
    *(
        Hostile(_SHARED + "/query", {"Content-Type": "application/json"}, body, "POST")
        for body in (
            '{"jsonPredicateHints": "' + '{\\"op\\":[' * 1000 + '"}',
            '{"jsonPredicateHints": ' + '{"op":' * 1000 + "1" + "}" * 1000 + "}",
            '{"predicateHints": ' + "[" * 7000,
            '{"predicateHints": ["' + "a = 1 AND " * 1500 + '"]}',
            '{"version": 9223372036854775807}',
            '{"version": 9223372036854775808}',
            '{"version": 1e400}',
            '{"version": -1}',
            '{"startingVersion": 9223372036854775807, "endingVersion": 9223372036854775807}',
            '{"startingVersion": 0, "endingVersion": 9223372036854775807}',
            '{"startingVersion": 5, "endingVersion": 1}',
            '{"limitHint": 2147483648}',
            '{"limitHint": 0, "includeRefreshToken": true}',
            '{"timestamp": "9999-12-31T23:59:59.999Z"}',
            '{"timestamp": "0001-01-01T00:00:00+14:00"}',
            '{"refreshToken": "9223372036854775808.' + "0" * 64 + '"}',
            '{"refreshToken": "' + "\xe9" * 90 + '"}',
            '{"refreshToken": "\\ud800"}',
            '{"version": 1, "version": 2}',
            "\ufeff{}",
            '"' + "\\u0000" * 2000 + '"',
            "9" * 15_000,
        )
    ),
)  # fmt: skip
"""Requests to Iceberg and Delta Sharing with a valid API token."""
