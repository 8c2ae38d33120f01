"""Send notices to a webhook, signed by the Standard Webhooks specification, with retries.

A notice is a POST with a JSON body. Its signature is HMAC-SHA256 over its id, the time of sending
and the body (https://www.standardwebhooks.com), so that a receiver can check its sender and time.
Each user's notices are sent in order; a notice that fails delays only others of its user.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic, time

import httpx
import sqlalchemy as sql

from fairlead.errors import InputError
from fairlead.service.journal.notices import Notice, Notices

LOG = logging.getLogger("fairlead.service")
SEND_SECONDS = 10.0  # for the receiver to answer
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 600.0  # before a notice is sent again
CHECK_SECONDS = 60.0  # longest time between checks for notices
PREFIX = "whsec_"  # of a secret
LEAST_KEY = 24  # bytes of a secret
DELETE_SECONDS = 3600.0  # between deletions of old notices


@dataclass(frozen=True)
class Receiver:
    """A webhook's URL, and the secret that it shares with the service."""

    url: str
    secret: str

    def headers(self, notice: Notice, now: float) -> dict[str, str]:
        """Return the headers of a notice that is sent at time `now`."""
        at = str(int(now))
        return {
            "Content-Type": "application/json",
            "webhook-id": notice.id,
            "webhook-timestamp": at,
            "webhook-signature": signature(self.secret, notice.id, at, notice.body),
        }


def check_url(text: str) -> None:
    """Raise `InputError` unless a text is an http or https URL."""
    try:
        url = httpx.URL(text)
        url.host.encode("idna")  # as `getaddrinfo` does, which refuses empty and long labels
    except (httpx.InvalidURL, UnicodeError) as fault:
        raise InputError(f"is no URL: {fault}", "--notify") from None
    has_host = url.host.strip(".") and "%" not in url.host  # httpx quotes invalid characters
    if url.scheme not in ("http", "https") or not has_host or not 0 < (url.port or 443) < 65536:
        raise InputError(f"must be an http or https URL, not {text!r:.80}", "--notify")


def signature(secret: str, id_: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a notice, version 1 of the specification."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{id_}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def read_secret(path: Path) -> str:
    """Return the secret in a file; write a new one if there is no such file."""
    try:
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(PREFIX + base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise InputError(getattr(fault, "strerror", None) or str(fault), "", str(path)) from None
    try:
        key = base64.b64decode(found.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not found.startswith(PREFIX) or len(key) < LEAST_KEY:
        raise InputError(
            f"must hold a webhook's secret: {PREFIX} and at least 24 bytes in base64", "", str(path)
        )
    return found


class Webhook:
    """Sends the notices of a journal; its methods are for the event loop's thread."""

    def __init__(self, notices: Notices, receiver: Receiver | None) -> None:
        self._notices, self._receiver = notices, receiver
        self.wake_up = asyncio.Event()
        # By failed notice: the time of the next try by the monotonic clock, and the last pause.
        self._retries: dict[str, tuple[float, float]] = {}
        self._accepted: set[str] = set()  # accepted notices that are still in the journal
        self._delete_at = -inf
        self._is_failing = False

    async def run(self) -> None:
        """Send notices for ever; without a receiver, only delete old ones."""
        # Without a receiver, nothing is sent, so the certificate authorities need not be read.
        has_receiver = self._receiver is not None
        async with httpx.AsyncClient(
            verify=has_receiver, timeout=SEND_SECONDS, follow_redirects=False
        ) as client:
            while True:
                pause = CHECK_SECONDS
                try:
                    pause = await self._send_due(client)
                except (sql.exc.SQLAlchemyError, OSError) as fault:
                    LOG.warning("notices cannot be read", extra={"fault": str(fault)})
                except Exception:  # a defect, after which other notices may be sent
                    LOG.exception("sending notices failed unexpectedly")
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self.wake_up.wait()
                self.wake_up.clear()

    async def _send_due(self, client: httpx.AsyncClient) -> float:
        """Send notices until none is due; return the seconds until the next check."""
        if monotonic() >= self._delete_at:
            self._delete_at = monotonic() + DELETE_SECONDS
            if dropped := await asyncio.to_thread(self._notices.delete_old, time()):
                LOG.warning(
                    "notices that no webhook accepted are deleted", extra={"notices": dropped}
                )
        if self._receiver is None:
            return DELETE_SECONDS
        for notice_id in list(self._accepted):  # they could not be deleted before
            await self._forget(notice_id)
        while True:
            now = monotonic()
            waiting = {id_ for id_, (again, _) in self._retries.items() if again > now}
            oldest = await asyncio.to_thread(self._notices.first_of_each)
            due = [n for n in oldest if n.id not in waiting and n.id not in self._accepted]
            self._retries = {n.id: self._retries[n.id] for n in oldest if n.id in self._retries}
            if not due:
                soonest = min((again for again, _ in self._retries.values()), default=now + 3600)
                return min(max(soonest - now, 0.0), CHECK_SECONDS)
            for notice in due:
                await self._send(client, self._receiver, notice)

    async def _send(self, client: httpx.AsyncClient, receiver: Receiver, notice: Notice) -> None:
        """Send a notice; delete it if it was accepted, else plan the next try."""
        fault = ""
        try:
            headers = receiver.headers(notice, time())
            # Only the status of the answer is read.
            sending = client.stream("POST", receiver.url, content=notice.body, headers=headers)
            async with asyncio.timeout(SEND_SECONDS), sending as answer:
                if not answer.is_success:
                    fault = f"it answers with status {answer.status_code}"
        except (httpx.HTTPError, TimeoutError, OSError) as error:
            fault = str(error) or type(error).__name__
        if not fault:
            self._retries.pop(notice.id, None)
            self._accepted.add(notice.id)
            await self._forget(notice.id)
        else:
            _, last_pause = self._retries.get(notice.id, (0.0, FIRST_PAUSE / 2))
            pause = min(2 * last_pause, LONGEST_PAUSE)
            self._retries[notice.id] = monotonic() + pause, pause
        if bool(fault) != self._is_failing:
            self._is_failing = bool(fault)
            if fault:
                LOG.warning("the webhook accepts no notices", extra={"fault": fault})
            else:
                LOG.info("the webhook accepts notices again")

    async def _forget(self, notice: str) -> None:
        """Delete an accepted notice; if that fails, it is deleted later and not sent again."""
        try:
            await asyncio.to_thread(self._notices.delete, notice)
            self._accepted.discard(notice)
        except (sql.exc.SQLAlchemyError, OSError) as fault:
            LOG.warning("a notice cannot be deleted", extra={"fault": str(fault)})
