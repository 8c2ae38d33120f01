"""Admission of callers, and limits on their requests.

A caller is identified by a token, or on this machine by its Unix account, before the body of its
request is read.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from time import monotonic
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse

from fairlead.service.journal.tokens import ACCOUNT, Caller, digest_of
from fairlead.service.rate_limits import CALLER, Allowance, Limits
from fairlead.service.service import Service

BYTES_UNDER_WAY = 64 * 2**20  # bodies of all requests that are being read or carried out
BYTES_OF_A_CALLER = 24 * 2**20  # bodies of such requests of one caller
BODY_SECONDS = 30.0  # for a body to arrive
TOKENS_AGE = 1.0  # seconds for which tokens are cached
MOST_CALLERS = 10_000
GUARDED = ("/v1/", "/metrics")
NO_SNIFFING = (b"x-content-type-options", b"nosniff")
FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
ADMIN = Caller("local", "admin", "")  # the caller of requests from this process
TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
ESTABLISHED = "01"  # a state of connections; in other states a row may have root as its account
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Peer:
    """The other end of an accepted connection, and its Unix account.

    On a Unix socket the kernel names the account. For TCP over loopback, the kernel's table of
    connections has a row for each end, with the account that opened it.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.is_unix = connection.family == socket.AF_UNIX
        self._uid: int | None = None
        if self.is_unix and hasattr(socket, "SO_PEERCRED"):
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            self._uid = int(CREDENTIALS.unpack(found)[1])
        elif not self.is_unix:
            self._here, self._there = connection.getsockname(), connection.getpeername()

    @cached_property
    def uid(self) -> int | None:
        """The number of the calling account; None if unknown, or on another machine."""
        return self._uid if self.is_unix else tcp_uid(self._here, self._there)

    @property
    def name(self) -> str:
        """The account or address to which the limit on connections applies."""
        return f"uid {self._uid}" if self.is_unix else str(self._there[0])


def tcp_uid(here: tuple[str, int], there: tuple[str, int]) -> int | None:
    """Return the account at the other end of a TCP connection over loopback; None if unknown."""
    address = ip_address(there[0])
    if not address.is_loopback:
        return None
    row = f"{_in_table(address, there[1])} {_in_table(ip_address(here[0]), here[1])} {ESTABLISHED}"
    try:
        lines = TABLES[address.version].read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if " ".join(fields[1:4]) == row:
            return int(fields[7])
    return None


def account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _in_table(address: IPv4Address | IPv6Address, port: int) -> str:
    """Format an address as in the kernel's table: hexadecimal words in native byte order."""
    packed = address.packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


@dataclass
class Access:
    """Identifies callers of a service, and limits their requests."""

    service: Service
    limits: Limits
    _tokens: dict[str, Caller] = field(default_factory=dict)
    _is_token_required: bool = True  # on TCP, as a token was added once
    _read_at: float = float("-inf")  # when the tokens were read, by the monotonic clock
    _allowances: OrderedDict[tuple[str, str], Allowance] = field(default_factory=OrderedDict)

    def identify(self, scope: Scope) -> Caller:
        """Return the caller of a request; raise `HTTPException` if it is not admitted.

        A token is valid from any address. Without a token, the Unix account is the caller:

        - on the Unix socket, any account that can reach it;
        - on TCP, only root and the service's own account, and only if no token was ever added.
        """
        headers = dict(scope["headers"])
        if monotonic() - self._read_at > TOKENS_AGE:
            tokens = self.service.journal.tokens
            self._tokens, self._is_token_required = tokens.all(), tokens.is_required()
            self._read_at = monotonic()
        if b"authorization" in headers:
            kind, _, secret = headers[b"authorization"].decode("latin-1").partition(" ")
            found = self._tokens.get(digest_of(secret.strip()))
            if kind.lower() != "bearer" or found is None:
                raise _unauthorized("this token is not known, or was revoked")
        elif "preset_caller" in scope["state"]:
            found = scope["state"]["preset_caller"]
        else:
            found = self._local(scope["state"].get("peer"), headers)
        return found

    def allowance(self, caller: Caller) -> Allowance:
        """Return the allowance of a caller; drop the least recently used beyond `MOST_CALLERS`."""
        key = caller.role, caller.name
        found = self._allowances.pop(key, None) or Allowance(caller.role, self.limits)
        self._allowances[key] = found
        if len(self._allowances) > MOST_CALLERS:
            self._allowances.popitem(last=False)
        return found

    def _local(self, peer: Peer | None, headers: dict[bytes, bytes]) -> Caller:
        """Identify a caller without a token by its Unix account."""
        is_forwarded = any(name in headers for name in FORWARDED)
        if peer is None or is_forwarded or (self._is_token_required and not peer.is_unix):
            raise _unauthorized("a token is needed; clients read FAIRLEAD_TOKEN")
        # DNS rebinding: a web page must not reach the service by a name for this machine's address.
        host = headers.get(b"host", b"").decode("latin-1")
        if not peer.is_unix and not _is_loopback(host):
            raise HTTPException(421, f"without a token, use localhost as host, not {host[:100]!r}")
        uid = peer.uid
        if uid is None:
            raise _unauthorized("a token is needed: the calling account is not known")
        if uid in (0, os.geteuid()):
            return Caller(f"{ACCOUNT}{uid}", "admin", "")
        if not peer.is_unix:
            raise _unauthorized("a token is needed on TCP: this service belongs to another account")
        return Caller(f"{ACCOUNT}{uid}", "user", account_name(uid))


class Admission:
    """ASGI middleware that admits a request before its body is read."""

    def __init__(self, app: Application, access: Access) -> None:
        self.app, self.access, self.limits = app, access, access.limits
        self._under_way: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request, read its body, pass it to the application, and charge its caller."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["state"] = dict(scope.get("state", {}))
        refused = self.access.service.state_thread.counters.refused
        sent = 0

        async def send_counted(message: MutableMapping[str, Any]) -> None:
            nonlocal sent
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), NO_SNIFFING]
                if message["status"] >= 400:
                    refused.labels(message["status"]).inc()
            sent += len(message.get("body", b""))
            await send(message)

        try:
            caller = self._admit(scope)
            name = "" if caller is None else caller.name
            limit = 0 if caller is None else self.limits.body
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read(receive, name, limit)
        except HTTPException as fault:
            await _refuse(fault, scope, receive, send_counted)
            return
        except TimeoutError:
            late = HTTPException(408, "the request took too long to arrive")
            await _refuse(late, scope, receive, send_counted)
            return
        except _DisconnectedError:
            return
        allowance = None if caller is None else self.access.allowance(caller)
        entry = CALLER.set(allowance)
        try:
            await self.app(scope, _replayed(body, receive), send_counted)
        finally:
            CALLER.reset(entry)
            self._release(name, len(body))
            if allowance is not None and not scope["state"].get("is_charged_elsewhere"):
                allowance.charge(len(body), sent)

    def _admit(self, scope: Scope) -> Caller | None:
        """Return the caller, or None if the path is open to all."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get(b"origin")
        is_foreign = origin is not None and origin.partition("://")[2] != headers.get(b"host", "")
        # A page that loads this address as an image or a script sends no Origin header.
        is_foreign |= headers.get(b"sec-fetch-site") in ("cross-site", "same-site")
        if is_foreign and (origin is not None or scope["path"].startswith(GUARDED)):
            raise HTTPException(403, "web pages of other sites may not send requests")
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise HTTPException(400, "has both Content-Length and Transfer-Encoding; send only one")
        caller = None
        if scope["path"].startswith(GUARDED):
            caller = scope["state"]["caller"] = self.access.identify(scope)
            self.access.allowance(caller).take()
        length = headers.get(b"content-length", "0")
        limit = 0 if caller is None else self.limits.body
        if not (length.isascii() and length.isdigit()) or int(length[:20]) > limit:
            raise HTTPException(413, f"the body has more than {limit:,} bytes")
        return caller

    async def _read(self, receive: Receive, name: str, limit: int) -> bytes:
        """Read a body of at most `limit` bytes, which count as under way until `_release`."""
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _DisconnectedError
                part = message.get("body", b"")
                if size + len(part) > limit:
                    raise HTTPException(413, f"the body has more than {limit:,} bytes")
                self._reserve(name, len(part))
                size += len(part)
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
        except BaseException:
            self._release(name, size)
            raise

    def _reserve(self, name: str, size: int) -> None:
        """Count bytes of a caller as under way; raise `HTTPException` 503 if too many are."""
        of_caller = self._under_way.get(name, 0) + size
        if of_caller > BYTES_OF_A_CALLER or sum(self._under_way.values()) + size > BYTES_UNDER_WAY:
            again = {"Retry-After": "1"}
            raise HTTPException(503, "too many large requests are under way", again)
        self._under_way[name] = of_caller

    def _release(self, name: str, size: int) -> None:
        left = self._under_way.get(name, 0) - size
        self._under_way[name] = left
        if left <= 0:
            del self._under_way[name]


def called_in_process(app: Application) -> Application:
    """Return the application for requests from this process, which are an admin's."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {**scope.get("state", {}), "preset_caller": ADMIN}
        await app(scope, receive, send)

    return call


class _DisconnectedError(Exception):
    """The caller has closed the connection."""


async def _refuse(refused: HTTPException, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {**(refused.headers or {}), "Connection": "close"}
    answer = JSONResponse({"detail": refused.detail}, refused.status_code, headers)
    await answer(scope, receive, send)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI channel that first yields a body that was already read."""
    is_read = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _unauthorized(why: str) -> HTTPException:
    return HTTPException(401, why, {"WWW-Authenticate": "Bearer"})


def _is_loopback(host: str) -> bool:
    """Return whether a Host header names this machine by a loopback address."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]")
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
