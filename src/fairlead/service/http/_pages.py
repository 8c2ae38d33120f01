"""Pages for browsers: the dashboard and the API's description, which run only their own scripts."""

from __future__ import annotations

import base64
import re
from functools import cache
from hashlib import sha256
from importlib import resources

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html

pages = APIRouter(include_in_schema=False)
SCRIPTS = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@pages.get("/")
async def dashboard() -> Response:
    """Show shares, servers and why a job waits; the page reads them from the API."""
    return _page(_dashboard(), "")


@pages.get("/docs")
async def docs() -> Response:
    """Show the API's description, by scripts that are installed with the service."""
    return _page(_docs(), "'self'")


@cache
def _dashboard() -> str:
    folder = resources.files("fairlead")
    page = (folder / "service/http/dashboard.html").read_text()
    return page.replace("/* page.css */", (folder / "report/template/page.css").read_text())


@cache
def _docs() -> str:
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="fairlead: the API",
        swagger_js_url="/docs-files/swagger-ui-bundle.js",
        swagger_css_url="/docs-files/swagger-ui.css",
        swagger_favicon_url="/docs-files/favicon.png",
    )
    return bytes(page.body).decode()


def _page(page: str, files: str) -> Response:
    """Return a page that may run its own scripts, load some files, and request this service."""
    digests = [sha256(script.encode()).digest() for script in SCRIPTS.findall(page)]
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    rules = {
        "default-src": "'none'",
        "script-src": f"{scripts} {files}",
        "style-src": f"'unsafe-inline' {files}",
        "img-src": f"data: {files}",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    policy = "; ".join(f"{name} {sources}".strip() for name, sources in rules.items())
    headers = {"Content-Security-Policy": policy}
    return Response(page, media_type="text/html", headers=headers)
