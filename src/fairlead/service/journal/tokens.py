"""Tokens, which admit callers. The journal has only digests of the tokens' secrets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sql

from fairlead.errors import InputError
from fairlead.service.journal._journal_file import meta, tokens

ACCOUNT = "uid "  # prefix of the names of callers identified by a Unix account
TOKEN_REQUIRED = "closed"  # key in `meta`: TCP requires a token, even if there is none any more


class Caller(NamedTuple):
    """A caller of the API and its role: the holder of a token, or else a Unix account."""

    name: str  # of the token, or of the Unix account
    role: str  # admin, user or worker
    subject: str  # the user, or the server; empty for an admin, or a worker of any server


class Tokens:
    """The tokens in a journal's file; several processes may read and change them at once."""

    def __init__(self, engine: sql.Engine, path: Path) -> None:
        self._engine, self._path = engine, path

    def add(self, caller: Caller, secret: str) -> None:
        """Admit a caller by a secret; raise `InputError` if its name is taken or reserved."""
        with self.adding(caller, secret):
            pass

    @contextmanager
    def adding(self, caller: Caller, secret: str) -> Iterator[None]:
        """Add a token, unless the block that prints its secret fails."""
        check_name(caller.name)
        row = dict(caller._asdict(), digest=digest_of(secret), created=time.time())
        try:
            with self._engine.begin() as connection:
                connection.execute(sql.insert(tokens).values(**row))
                _require_tokens(connection)
                yield
        except sql.exc.IntegrityError:
            raise InputError(f"there is a token {caller.name!r:.60}", "name") from None
        except sql.exc.DBAPIError as fault:
            raise InputError(str(fault.orig), "", str(self._path)) from None

    def remove(self, name: str) -> None:
        """Revoke a token; raise `InputError` if it is unknown, or the last admin token."""
        with self._engine.begin() as connection:
            names = connection.scalars(sql.select(tokens.c.name)).all()
            if name not in names:
                raise InputError(f"there is no token {name!r:.60}", "name")
            is_admin = tokens.c.role == "admin"
            admins = connection.scalars(sql.select(tokens.c.name).where(is_admin)).all()
            if admins == [name]:
                why = f"{name!r:.60} is the last token of an admin; add another one first"
                raise InputError(why, "name")
            connection.execute(sql.delete(tokens).where(tokens.c.name == name))
            _require_tokens(connection)

    def all(self) -> dict[str, Caller]:
        """Return the callers by the digests of their secrets."""
        with self._engine.connect() as connection:
            rows = connection.execute(sql.select(tokens).order_by(tokens.c.created))
            return {row.digest: Caller(row.name, row.role, row.subject) for row in rows}

    def is_required(self) -> bool:
        """Return whether a token was ever added: from then on TCP requires one."""
        with self._engine.connect() as connection:
            return bool(
                _meta_value(connection, TOKEN_REQUIRED)
                or connection.scalar(sql.select(tokens.c.name).limit(1))
            )

    def service_secret(self, key: str, make: Callable[[], str]) -> str:
        """Return a secret of the service itself; the first time, let `make` create it."""
        with self._engine.begin() as connection:
            found = _meta_value(connection, key)
            if found is None:
                found = make()
                connection.execute(sql.insert(meta).values(key=key, value=found))
        return found


def check_name(name: str) -> None:
    """Raise `InputError` for a token's name that reads as a Unix account's."""
    if name.startswith(ACCOUNT):
        raise InputError(f"must not begin with {ACCOUNT!r}, which names callers by account", "NAME")


def digest_of(secret: str) -> str:
    """Return the digest of a token's secret, which is long and random, so it needs no salt."""
    return sha256(secret.encode()).hexdigest()


def _meta_value(connection: sql.Connection, key: str) -> str | None:
    return connection.scalar(sql.select(meta.c.value).where(meta.c.key == key))


def _require_tokens(connection: sql.Connection) -> None:
    """Require tokens over TCP from now on."""
    if _meta_value(connection, TOKEN_REQUIRED) is None:
        connection.execute(sql.insert(meta).values(key=TOKEN_REQUIRED, value="1"))
