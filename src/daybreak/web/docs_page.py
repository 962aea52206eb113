"""The interface for people: one page made from the OpenAPI document, without scripts or other hosts."""

from __future__ import annotations

from html import escape

from daybreak.web.openapi_parts import JsonObject
from daybreak.web.problems import PROBLEMS

DOCS_STYLE = """\
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 2rem 1rem 6rem; }
h1 { font-size: 1.9rem; margin: 0 0 .5rem; }
h2 { margin: 2.5rem 0 .75rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
h3 { font: 600 1rem/1.4 ui-monospace, monospace; margin: 1.5rem 0 .25rem; overflow-wrap: anywhere; }
h3 span { display: inline-block; min-width: 4.2rem; }
p { margin: .25rem 0 .6rem; }
code, pre { font: .92em ui-monospace, monospace; background: var(--soft); border-radius: .25rem; padding: .1em .3em; }
code { overflow-wrap: anywhere; }
pre { padding: .8rem 1rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
"""
_EXAMPLE = """\
TOKEN=$(curl -s {base}/download/v2/auth/login -H 'content-type: application/json' \\
  -d '{{"email": "you@example.org", "password": "..."}}' | jq -r .token)
curl -s {base}/download/v2/auth/context -H "authorization: Bearer $TOKEN"
curl -LO {base}/download/v1/files/CLIENT_ID/members.csv.gz -H "authorization: Bearer $TOKEN"
"""


def docs_page(document: JsonObject, *, contact: str) -> bytes:
    """The page as UTF-8."""
    base = str(document["servers"][0]["url"])
    about = document["info"]["description"].strip().replace("\n\n", "</p><p>")
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        "<title>Daybreak: HTTP interface</title>",
        f"<link rel=stylesheet href='{escape(base)}/docs/style.css'></head><body><main>",
        f"<h1>Daybreak</h1><p>{_code(about)}</p>",
        f"<p>For machines: <a href='{escape(base)}/openapi.json'>openapi.json</a>.</p>",
        f"<p>The columns of the files: <a href='{escape(base)}/download/v1/schema'>schema</a>.</p>",
        f"<pre>{escape(_EXAMPLE.format(base=base))}</pre>",
    ]
    if contact:
        parts.append(f"<p>Questions: {escape(contact)}</p>")
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2><p>{escape(tag['description'])}</p>")
        parts.extend(_operations(document, tag["name"]))
    parts.append("<h2>Problems</h2><table><tr><th>Status</th><th>Code</th><th>Meaning</th></tr>")
    parts.extend(
        f"<tr id='{code}'><td>{status}</td><td><code>{code}</code></td><td>{escape(title)}</td></tr>"
        for code, (status, title) in PROBLEMS.items()
    )
    parts.append("</table></main></body></html>\n")
    return "".join(parts).encode()


def _operations(document: JsonObject, tag: str) -> list[str]:
    found = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method == "head" or tag not in operation["tags"]:
                continue
            found.append(f"<h3><span>{method.upper()}</span> {escape(path)}</h3>")
            found.append(f"<p>{escape(operation['summary'])}. {_code(operation.get('description', ''))}</p>")
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if schema is not None:
                shape = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                fields = ", ".join(f"<code>{escape(name)}</code>" for name in shape["properties"])
                found.append(f"<p>Body: JSON with {fields}.</p>")
            found.append(f"<p>Answers: {', '.join(sorted(operation['responses']))}.</p>")
    return found


def _code(text: str) -> str:
    """Text with its `backticks` as code; paragraphs that were made before stay."""
    pieces = text.split("`")
    return "".join(f"<code>{escape(piece)}</code>" if odd % 2 else piece for odd, piece in enumerate(pieces))
