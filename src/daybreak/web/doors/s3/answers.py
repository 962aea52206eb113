"""Answers of the S3 endpoint: lists as XML, and headers of objects."""

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote
from xml.sax.saxutils import escape

from starlette.responses import Response

from daybreak.attached_files import AttachedObject, StoredObject
from daybreak.credentials.sigv4 import S3Error
from daybreak.web.doors.s3.errors import XML_START, XML_TYPE
from daybreak.web.doors.s3.requests import ListRequest, continuation_token
from daybreak.web.http.files import FileEntity, http_date

_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_OVERRIDES = ("cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1024}")


def buckets(client_id: str, created_at: datetime) -> Response:
    """Return the list of the one bucket that a credential may read."""
    return _xml(
        f"<ListAllMyBucketsResult {_NAMESPACE}>{_owner(client_id)}<Buckets><Bucket><Name>{client_id}</Name>"
        f"<CreationDate>{_time(created_at)}</CreationDate></Bucket></Buckets></ListAllMyBucketsResult>"
    )


def empty(element: str) -> Response:
    """Return an element without content: the location of the default region, or that there are no versions."""
    return _xml(f"<{element} {_NAMESPACE}/>")


def object_list(client_id: str, objects: Sequence[AttachedObject], wanted: ListRequest) -> Response:
    """Return one page of a list of sorted objects. Keys with the delimiter are shown as their common prefix."""
    page, is_truncated = _page(objects, wanted)
    keys = [each for each in page if isinstance(each, AttachedObject)]
    prefixes = [each for each in page if isinstance(each, str)]

    def text(value: str) -> str:
        return quote(value, safe="/-_.~*") if wanted.url_encoded else escape(value, {"\r": "&#13;"})

    fields = {
        "Name": client_id,
        "Prefix": text(wanted.prefix),
        "Delimiter": text(wanted.delimiter),
        "MaxKeys": str(wanted.max_keys),
        "EncodingType": "url" if wanted.url_encoded else "",
        "IsTruncated": str(is_truncated).lower(),
    }
    last = "" if not page else page[-1] if isinstance(page[-1], str) else page[-1].key
    if wanted.is_v2:
        fields |= {"KeyCount": str(len(page)), "StartAfter": text(wanted.start)}
        fields["ContinuationToken"] = wanted.token
        fields["NextContinuationToken"] = continuation_token(last) if is_truncated else ""
    else:
        fields |= {"Marker": text(wanted.start), "NextMarker": text(last) if is_truncated else ""}
    always = {"Prefix", "Marker"}
    head = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items() if value or name in always)
    owner = _owner(client_id) if wanted.with_owner else ""
    contents = "".join(
        f"<Contents><Key>{text(each.key)}</Key><LastModified>{_time(each.modified_at)}</LastModified>"
        f"<ETag>&quot;{_etag(each)}&quot;</ETag><Size>{each.size}</Size>{owner}"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for each in keys
    )
    common = "".join(f"<CommonPrefixes><Prefix>{text(each)}</Prefix></CommonPrefixes>" for each in prefixes)
    return _xml(f"<ListBucketResult {_NAMESPACE}>{head}{contents}{common}</ListBucketResult>")


def object_entity(
    found: AttachedObject, request_headers: Mapping[str, str], parameters: Mapping[str, str]
) -> FileEntity:
    """Return an object as a client sees it. Raises S3Error for a `response-...` parameter that is not a header."""
    source = found.source
    headers = {
        "content-type": source.named.format.media_type if isinstance(source, StoredObject) else "application/json",
        "etag": f'"{_etag(found)}"',
        "last-modified": http_date(found.modified_at),
        "accept-ranges": "bytes",
        "cache-control": "private, no-cache, no-transform",
    }
    # On a 206, clients compare the checksum of the whole file with that of the part.
    if request_headers.get("x-amz-checksum-mode", "").upper() == "ENABLED" and "range" not in request_headers:
        headers["x-amz-checksum-sha256"] = base64.b64encode(bytes.fromhex(found.sha256)).decode()
        headers["x-amz-checksum-type"] = "FULL_OBJECT"
    for name in _OVERRIDES:
        value = parameters.get(f"response-{name}")
        if value is not None:
            if not _HEADER_VALUE.fullmatch(value):
                raise S3Error("InvalidArgument", f"response-{name} is not a value of a header.")
            headers[name] = value
    return FileEntity(headers, found.modified_at, found.size)


def _page(objects: Sequence[AttachedObject], wanted: ListRequest) -> tuple[list[AttachedObject | str], bool]:
    page: list[AttachedObject | str] = []
    last = ""
    for each in objects:
        end = each.key.find(wanted.delimiter, len(wanted.prefix)) if wanted.delimiter else -1
        common = each.key[: end + len(wanted.delimiter)] if end >= 0 else ""
        if each.key <= wanted.after or (common and common in (last, wanted.after)):
            continue
        if len(page) == wanted.max_keys:
            return page, wanted.max_keys > 0
        page.append(common or each)
        last = common
    return page, False


def _etag(found: AttachedObject) -> str:
    """Return an entity tag like that of a multipart upload: other tools take one without a dash for an MD5 digest."""
    return f"{found.sha256[:32]}-1"


def _owner(client_id: str) -> str:
    return f"<Owner><ID>{client_id}</ID><DisplayName>{client_id}</DisplayName></Owner>"


@lru_cache(256)  # a bucket has few publications
def _time(instant: datetime) -> str:
    # Whole seconds, as in the Last-Modified header.
    return f"{instant:%Y-%m-%dT%H:%M:%S}.000Z"


def _xml(body: str) -> Response:
    return Response(XML_START + body, media_type=XML_TYPE)
