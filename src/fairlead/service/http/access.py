"""Which callers are admitted, as whom, and how much they may ask.

A caller is known by a token, or, on this machine, by the Unix account that asks. It is known before
a byte of its request's body is read.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from time import monotonic
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse

from fairlead.service._state_thread import CALLER
from fairlead.service.http._peers import Peer, account_name
from fairlead.service.journal.tokens import ACCOUNT, Token, digest_of
from fairlead.service.messages import FullError
from fairlead.service.service import Service

LARGEST_BODY = 10 * 2**20
BYTES_UNDER_WAY = 64 * 2**20  # of all requests that are being read or carried out
BYTES_OF_A_CALLER = 24 * 2**20
BODY_SECONDS = 30.0
TOKENS_AGE = 1.0  # seconds after which tokens are read again
MOST_CALLERS = 10_000
# What counts as one more request: bytes of a body, which may take 80 ms a MiB to understand, and of
# an answer.
BODY_A_REQUEST = 16 * 1024
ANSWER_A_REQUEST = 64 * 1024
ENGINE_SECONDS_A_REQUEST = 0.001  # of the thread that all callers share
WORKER_FACTOR = 4.0  # a worker's token may ask more often than a user's
TURNS = {"user": 4, "worker": 64, "admin": 1000}  # requests of a caller with the engine at once
GUARDED = ("/v1/", "/metrics")
NO_SNIFFING = (b"x-content-type-options", b"nosniff")
FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
ADMIN = Token("local", "admin", "")  # of callers in this process


@dataclass(frozen=True)
class Limits:
    """Limits on callers.

    Attributes
    ----------
    body : int
        Bytes of a request.
    rate, burst : float
        Requests of a user a second, and at once. A request counts once more for each 16 KiB of it,
        each 64 KiB of its answer, and each millisecond that it keeps the engine.
    """

    body: int = LARGEST_BODY
    rate: float = 100.0
    burst: float = 500.0


class Allowance:
    """The requests that a caller may still make: at a rate, and some at once.

    Parameters
    ----------
    role : str
    limits : Limits
    """

    def __init__(self, role: str, limits: Limits) -> None:
        factor = WORKER_FACTOR if role == "worker" else 1.0
        self._rate, self._burst = factor * limits.rate, factor * limits.burst
        self._is_limited = role != "admin"
        self._left, self._since = self._burst, monotonic()
        self.turns = asyncio.Semaphore(TURNS[role])

    def take(self) -> None:
        """Count a request, or refuse it until the rate admits it.

        Raises
        ------
        HTTPException
        """
        now = monotonic()
        self._left = min(self._burst, self._left + (now - self._since) * self._rate)
        self._since = now
        if self._is_limited and self._left < 1:
            wait = str(int((1 - self._left) / self._rate) + 1)
            raise HTTPException(429, "too many requests", {"Retry-After": wait})
        self._left -= 1

    def check(self) -> None:
        """Refuse the rest of a request when other requests have spent the allowance meanwhile.

        Raises
        ------
        FullError
        """
        if self._is_limited and self._left < 0:
            raise FullError("too many requests")

    def charge(self, requests: float) -> None:
        """Count the work of a request as further requests."""
        self._left -= requests

    def charge_engine(self, seconds: float) -> None:
        """Count the engine's time as further requests."""
        self.charge(seconds / ENGINE_SECONDS_A_REQUEST)


@dataclass
class Access:
    """Admits callers.

    Parameters
    ----------
    service : Service
    limits : Limits
    """

    service: Service
    limits: Limits
    _tokens: dict[str, Token] = field(default_factory=dict)
    _is_closed: bool = True
    _read: float = float("-inf")
    _allowances: OrderedDict[tuple[str, str], Allowance] = field(default_factory=OrderedDict)

    def caller(self, scope: Scope) -> Token:
        """Return the caller of a request.

        A token counts wherever it comes from. Without one, the Unix account counts: on the Unix
        socket any account that can reach it; on TCP only root and the service's own account, and
        only as long as there was never a token.

        Raises
        ------
        HTTPException
            When the caller is not known, or has to wait.
        """
        headers = dict(scope["headers"])
        self._read_tokens()
        if b"authorization" in headers:
            kind, _, secret = headers[b"authorization"].decode("latin-1").partition(" ")
            found = self._tokens.get(digest_of(secret.strip()))
            if kind.lower() != "bearer" or found is None:
                raise _unknown("this token is not known, or was revoked")
        elif "caller" in scope["state"]:
            found = scope["state"]["caller"]
        else:
            found = self._local(scope["state"].get("peer"), headers)
        self.allowance(found).take()
        return found

    def allowance(self, who: Token) -> Allowance:
        """Return the allowance of a caller; of many the longest unused one is dropped."""
        key = who.role, who.name
        found = self._allowances.pop(key, None) or Allowance(who.role, self.limits)
        self._allowances[key] = found
        if len(self._allowances) > MOST_CALLERS:
            self._allowances.popitem(last=False)
        return found

    def _local(self, peer: Peer | None, headers: dict[bytes, bytes]) -> Token:
        """Return the caller that a Unix account is."""
        is_forwarded = any(name in headers for name in FORWARDED)
        if peer is None or is_forwarded or (self._is_closed and not peer.is_unix):
            raise _unknown("a token is needed: FAIRLEAD_TOKEN")
        # A page of the web must not get in by a host name that leads here.
        host = headers.get(b"host", b"").decode("latin-1")
        if not peer.is_unix and not _is_loopback(host):
            raise HTTPException(421, f"without a token this service is not {host[:100]!r}")
        uid = peer.uid
        if uid is None:
            raise _unknown("a token is needed: the calling account is not known")
        if uid in (0, os.geteuid()):
            return Token(f"{ACCOUNT}{uid}", "admin", "")
        if not peer.is_unix:
            raise _unknown("a token is needed on TCP: this service belongs to another account")
        return Token(f"{ACCOUNT}{uid}", "user", account_name(uid))

    def _read_tokens(self) -> None:
        if monotonic() - self._read > TOKENS_AGE:
            journal = self.service.journal
            self._tokens, self._is_closed = journal.tokens.all(), journal.tokens.is_closed()
            self._read = monotonic()


class Gate:
    """ASGI middleware that admits a request before its body is read.

    The caller is known first. Then the body is read whole, within a time, and within limits on the
    bytes of one request, of one caller, and of all requests under way.
    """

    def __init__(self, app: Application, access: Access) -> None:
        self.app, self.access, self.limits = app, access, access.limits
        self._under_way: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry out a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["state"] = dict(scope.get("state", {}))
        traffic = _Traffic(send, self.access.service.engine.tally.refuse)
        try:
            who = self._admit(scope)
        except HTTPException as fault:
            await _refuse(fault, scope, receive, traffic.send)
            return
        name = "" if who is None else who.name
        try:
            body = await asyncio.wait_for(self._read(receive, name, who is not None), BODY_SECONDS)
        except TimeoutError:
            late = HTTPException(408, "the request took too long to arrive")
            await _refuse(late, scope, receive, traffic.send)
        except HTTPException as fault:
            await _refuse(fault, scope, receive, traffic.send)
        except _GoneError:
            return
        else:
            allowance = None if who is None else self.access.allowance(who)
            entry = CALLER.set(allowance)
            try:
                await self.app(scope, _replayed(body, receive), traffic.send)
            finally:
                CALLER.reset(entry)
                self._release(name, len(body))
                if allowance is not None and not scope["state"].get("is_free"):
                    allowance.charge(len(body) / BODY_A_REQUEST + traffic.sent / ANSWER_A_REQUEST)

    def _admit(self, scope: Scope) -> Token | None:
        """Return the caller, or None where the path is open to all."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get(b"origin")
        is_foreign = origin is not None and origin.partition("://")[2] != headers.get(b"host", "")
        # A page that embeds an address here as a picture or script sends no origin.
        is_foreign |= headers.get(b"sec-fetch-site") in ("cross-site", "same-site")
        if is_foreign and (origin is not None or scope["path"].startswith(GUARDED)):
            raise HTTPException(403, "a web page of another site may not ask")
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise HTTPException(400, "has a length and an encoding of its body: which one counts?")
        who = None
        if scope["path"].startswith(GUARDED):
            who = scope["state"]["who"] = self.access.caller(scope)
        length = headers.get(b"content-length", "0")
        most = 0 if who is None else self.limits.body
        if not (length.isascii() and length.isdigit()) or int(length[:20]) > most:
            raise HTTPException(413, f"more than {most:,} bytes")
        return who

    async def _read(self, receive: Receive, name: str, is_known: bool) -> bytes:
        """Read a body; its bytes count as under way until they are released."""
        parts: list[bytes] = []
        size, most = 0, self.limits.body if is_known else 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _GoneError
                part = message.get("body", b"")
                if size + len(part) > most:
                    raise HTTPException(413, f"more than {most:,} bytes")
                self._reserve(name, len(part))
                size += len(part)
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
        except BaseException:
            self._release(name, size)
            raise

    def _reserve(self, name: str, size: int) -> None:
        mine = self._under_way.get(name, 0) + size
        if mine > BYTES_OF_A_CALLER or sum(self._under_way.values()) + size > BYTES_UNDER_WAY:
            again = {"Retry-After": "1"}
            raise HTTPException(503, "too many large requests are under way", again)
        self._under_way[name] = mine

    def _release(self, name: str, size: int) -> None:
        left = self._under_way.get(name, 0) - size
        self._under_way[name] = left
        if left <= 0:
            del self._under_way[name]


def inside(app: Application, who: Token = ADMIN) -> Application:
    """Return an application for callers within this process, all of whom are one caller."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {**scope.get("state", {}), "caller": who}
        await app(scope, receive, send)

    return call


class _GoneError(Exception):
    """The caller has closed the connection."""


class _Traffic:
    """Counts bytes of answers, and refusals."""

    def __init__(self, send: Send, refuse: Callable[[int], None]) -> None:
        self._send, self._refuse, self.sent = send, refuse, 0

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of an answer."""
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), NO_SNIFFING]
            if message["status"] >= 400:
                self._refuse(message["status"])
        self.sent += len(message.get("body", b""))
        await self._send(message)


async def _refuse(refused: HTTPException, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {**(refused.headers or {}), "Connection": "close"}
    answer = JSONResponse({"detail": refused.detail}, refused.status_code, headers)
    await answer(scope, receive, send)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives a body which was read already."""
    is_read = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _unknown(why: str) -> HTTPException:
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
