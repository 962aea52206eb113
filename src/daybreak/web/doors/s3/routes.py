"""The S3 endpoint: one route for all requests to a bucket, or to the host name of the endpoint."""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from daybreak.access.link_usage import LinkRate
from daybreak.access.services import Services
from daybreak.attached_files import REGION, AttachedFiles, StatementObject, StoredObject
from daybreak.credentials.sigv4 import S3Error
from daybreak.domain.identity import is_id
from daybreak.downloads import OpenedFile, count_bytes, record_download
from daybreak.web.doors.s3 import answers
from daybreak.web.doors.s3.errors import S3_ROUTE, is_s3_request
from daybreak.web.doors.s3.requests import Access, S3Request, authenticate, list_request, object_headers, read_request
from daybreak.web.file_sender import FileSender
from daybreak.web.http.files import file_answer

_DOOR = {"door": "s3"}
_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH")
# Other paths on a host name that is only for S3.
_OTHER_PATHS = ("/iceberg/", "/healthz", "/readyz")
_EMPTY = {"location": "LocationConstraint", "versioning": "VersioningConfiguration"}
# Parameters that select an operation, which this endpoint does not have. Others are options of an operation.
_UNSUPPORTED = frozenset((
    "abac", "accelerate", "acl", "analytics", "annotation", "attributes", "cors", "encryption", "intelligent-tiering",
    "inventory", "legal-hold", "lifecycle", "logging", "metadataConfiguration", "metadataTable", "metrics",
    "notification", "object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", "replication",
    "requestPayment", "restore", "retention", "select", "session", "tagging", "torrent", "uploadId", "uploads",
    "versions", "website",
))  # fmt: skip


def s3_routes(services: Services, sender: FileSender) -> list[Route]:
    """Return the route of the endpoint, none unless `attach.s3`."""
    return [S3Route(services, sender)] if services.settings.attach.s3 else []


class S3Route(Route):
    """Matches requests whose path begins with a UUID, signed ones to `/`, and all to a separate host name."""

    def __init__(self, services: Services, sender: FileSender) -> None:
        endpoint = _S3Endpoint(services, sender)
        super().__init__("/{bucket}/{key:path}", endpoint.respond, methods=_METHODS, name=S3_ROUTE)
        settings = services.settings
        host = urlsplit(settings.attach_url).netloc
        # Empty if it is that of the service.
        self._host = b"" if host == urlsplit(settings.base_url).netloc else host.encode()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for the endpoint."""
        found = scope["type"] == "http" and self._is_own(scope)
        return (Match.FULL, {"endpoint": self.endpoint}) if found else (Match.NONE, {})

    def _is_own(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if is_id(path[1:37]) and path[37:38] in ("", "/"):
            return True
        if self._host and not path.startswith(_OTHER_PATHS):
            host: bytes = next((value for name, value in scope["headers"] if name == b"host"), b"")
            if host.lower() == self._host:
                return True
        return path == "/" and is_s3_request(scope)


class _S3Endpoint:
    def __init__(self, services: Services, sender: FileSender) -> None:
        self._services = services
        self._sender = sender
        self._files = AttachedFiles(services)
        self._rate = LinkRate(services.state, services.settings.attach.request_rate, services.clock)

    async def respond(self, request: Request) -> Response:
        read = read_request(request)
        access = await authenticate(request, read.signed, self._services, self._rate)
        if request.method not in ("GET", "HEAD"):
            raise S3Error("AccessDenied", "Access Denied: this endpoint is read only.")
        if not read.bucket:
            token = access.principal.token
            assert token is not None  # access keys belong to API tokens
            return answers.buckets(access.bucket.client_id, token.created_at)
        if read.bucket != access.bucket.client_id:
            await record_download(self._services, access.origin, "file.fetched", "not_your_account", _DOOR)
            raise S3Error("AccessDenied", "Access Denied")
        unsupported = _UNSUPPORTED & read.parameters.keys()
        if unsupported:
            raise S3Error("NotImplemented", f"This endpoint has no operation {min(unsupported)}.")
        return await (self._object if read.key else self._bucket)(request, read, access)

    async def _bucket(self, request: Request, read: S3Request, access: Access) -> Response:
        if request.method == "HEAD":
            return Response(headers={"x-amz-bucket-region": REGION})
        for name, element in _EMPTY.items():
            if name in read.parameters:
                return answers.empty(element)
        wanted = list_request(read.parameters)
        objects = await self._files.list_objects(access.bucket, wanted.prefix)
        return answers.object_list(access.bucket.client_id, objects, wanted)

    async def _object(self, request: Request, read: S3Request, access: Access) -> Response:
        found = await self._files.find(access.bucket, read.key)
        headers = object_headers(read)
        entity = answers.object_entity(found, headers, read.parameters)
        if request.method == "HEAD":
            # Unlike other servers, S3 evaluates ranges of HEAD.
            answer = file_answer(entity, headers, method="GET")
            return Response(None, answer.status, answer.headers)
        if isinstance(found.source, StoredObject):
            principal, source = access.principal, found.source
            opened = OpenedFile(
                access.bucket.client_id, source.named, source.file, principal.subject, principal.seat, None, "s3"
            )
            return await self._sender.send(request, opened, entity, headers, redirect=False)
        answer = file_answer(entity, headers, method="GET")
        content = found.source if isinstance(found.source, bytes) else b""
        details = _DOOR | {"file": read.key.rpartition("/")[2]}
        if isinstance(found.source, StatementObject) and answer.segments:
            content = await self._files.statement(access.bucket, found.source)
            recorded = access.origin, "statement.fetched", "ok", details
            await record_download(self._services, *recorded, sent=answer.length)
        elif answer.segments:
            await count_bytes(self._services, access.origin, "file.fetched", details, answer.length)
        return Response(answer.body(content), answer.status, answer.headers)
