"""Pages for browsers: the live page and the API's description. They load only local files."""

from __future__ import annotations

import base64
import re
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html

pages = APIRouter(include_in_schema=False)
PAGE_FILES = Path(__file__).parent / "page"
LIBRARIES = PAGE_FILES / "libraries" / "package-lock.json"  # the last file that a build copies
SCRIPTS = re.compile(r"<script>(.*?)</script>", re.DOTALL)
NO_PAGE = """fairlead was installed without its live page, because its build found no npm.
Install Node.js with npm, then fairlead again; or use fairlead top in a terminal.
"""


@pages.get("/")
async def live_page() -> Response:
    """Show the live page, whose scripts call the API."""
    if not LIBRARIES.exists():
        return Response(NO_PAGE, 503, media_type="text/plain")
    return _page(_live_page())


@pages.get("/docs")
async def docs() -> Response:
    """Show the API's description, with scripts that are installed with the service."""
    body = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="fairlead: the API",
        swagger_js_url="/docs-files/swagger-ui-bundle.js",
        swagger_css_url="/docs-files/swagger-ui.css",
        swagger_favicon_url="/docs-files/favicon.png",
    ).body
    return _page(bytes(body).decode())


@cache
def _live_page() -> str:
    page = (PAGE_FILES / "index.html").read_text(encoding="utf-8")
    style = resources.files("fairlead") / "report/template/page.css"
    return page.replace("/* page.css */", style.read_text(encoding="utf-8"))


def _page(page: str) -> Response:
    """Return a page with a security policy: only this service's files and its own scripts."""
    digests = [sha256(script.encode()).digest() for script in SCRIPTS.findall(page)]
    own = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(["'self'", *own]),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    policy = "; ".join(f"{name} {sources}" for name, sources in rules.items())
    headers = {"Content-Security-Policy": policy}
    return Response(page, media_type="text/html", headers=headers)
