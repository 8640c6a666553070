"""Pages of the console: its files, read once, and served as they are to anybody who reaches the listener.

They hold no data. All that they show comes from the API, with the user's login.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILES: Final = Path(__file__).parent / "static"
START: Final = "index.html"
"""File that is served at /."""
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""Media types by suffix; files with others are not served."""
CONTENT_SECURITY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the pages: nothing but files of this broker, and no inline scripts or styles."""


class Page:
    """File of the console in memory."""

    def __init__(self, path: Path) -> None:
        self.body = path.read_bytes()
        self.headers = {
            "content-type": TYPES[path.suffix],
            "content-security-policy": CONTENT_SECURITY,
            "etag": f'"{hashlib.sha256(self.body).hexdigest()[:16]}"',
        }

    async def answer(self, request: Request) -> Response:
        """Return the file, or 304 for a browser that has it already."""
        if request.headers.get("if-none-match") == self.headers["etag"]:
            return Response(status_code=304, headers=self.headers)
        return Response(self.body, headers=self.headers)


async def absent(request: Request) -> Response:
    """Return 404, without asking for a login: a browser may still have pages of another version."""
    return Response("There is no such file of the console.", status_code=404, media_type="text/plain")


def routes() -> list[Route]:
    """Return a route for each file, / for the first page, and 404 for the rest below /static.

    Nothing else is ever read from the disk.
    """
    routes = []
    for path in sorted(FILES.rglob("*")):
        if path.suffix in TYPES:
            name = path.relative_to(FILES).as_posix()
            routes.append(Route("/" if name == START else f"/static/{name}", Page(path).answer, methods=["GET"]))
    routes.append(Route("/static/{path:path}", absent, methods=["GET"]))
    return routes
