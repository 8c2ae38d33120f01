"""The base of all selections; and first-fit: the first server, in the order of servers, with room.

Servers are stored in blocks. A block has upper bounds of the free amounts of its servers. For each
shape, the next search skips the blocks in which the last one found no room, except blocks with a
server that was freed since. The number of searches serves as the clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Server, Shape, fits, has_room, largest_of

LARGEST_BLOCK: Final = 128  # number of servers beyond which a block is split


class Selection:
    """Chooses the server for a task among the open servers."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        self.width = width  # the number of columns that decide whether a task fits (C)
        self.total = total  # (W,) capacity of all servers; the criterion updates it in place

    def open(self, server: Server) -> None:
        """Add a server to the open ones."""
        raise NotImplementedError

    def close(self, server: Server) -> None:
        """Remove a server from the open ones."""
        raise NotImplementedError

    def change(self, server: Server) -> None:
        """Update the indexes after a server's free amounts changed."""
        raise NotImplementedError

    def find(self, shape: Shape) -> Server | None:
        """Return the open server for a task, or None if there is no room."""
        raise NotImplementedError

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the server for a task among some servers, or None if there is no room.

        Their free amounts may differ from those in the indexes, for instance at a reserved time.
        """
        raise NotImplementedError


class Block:
    """Consecutive servers, in the order of servers."""

    def __init__(self, servers: list[Server], width: i64) -> None:
        self.width = width
        self.servers = servers
        self.free = vec[i64]()  # the free amounts of each server, one after the other
        self.bounds = vec[i64]()  # (C,) upper bounds of the free amounts of its servers
        self.is_tight = False  # whether `bounds` equal the largest free amounts
        self.capacity = vec[i64]()  # (C,) the largest capacity of any server
        self.freed_at: i64 = 0  # `FirstFit.searches` when one of its servers was last freed
        self.rebuild()

    def rebuild(self) -> None:
        """Copy the free amounts of all servers, after servers were added or removed."""
        free = vec[i64]()
        capacity = vec[i64]()
        for slot in range(len(self.servers)):
            server = self.servers[slot]
            server.block = self
            server.slot = slot
            own, own_capacity = server.free, server.capacity
            for r in range(self.width):
                free = append(free, own[r])
                capacity = append(capacity, own_capacity[r])
        self.free = free
        self.capacity = largest_of(capacity, self.width)
        self.is_tight = False
        self.tighten()

    def tighten(self) -> None:
        """Lower the bounds to the largest free amounts."""
        if not self.is_tight:
            self.bounds = largest_of(self.free, self.width)
            self.is_tight = True

    def change(self, server: Server, searches: i64) -> None:
        """Copy the free amounts of a server; `searches` is the number of searches so far."""
        free, bounds = self.free, self.bounds
        self.is_tight = False
        at = server.slot * self.width
        own = server.free
        for r in range(self.width):
            amount = own[r]
            if amount > free[at]:
                self.freed_at = searches
            free[at] = amount
            bounds[r] = max(bounds[r], amount)
            at += 1

    def find(self, shape: Shape) -> Server | None:
        """Return the first server of the block with room; tighten the bounds if none has room."""
        width, free, need = self.width, self.free, shape.need
        found_room = False
        at: i64 = 0
        for server in self.servers:
            r: i64 = 0
            while r < width and free[at + r] >= need[r]:
                r += 1
            if r == width:
                if shape.constraint.admits[server.kind]:
                    return server
                found_room = True
            at += width
        if not found_room:
            self.tighten()
        return None


class FirstFit(Selection):
    """Keeps open servers in blocks."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.blocks: list[Block] = []
        self.searches: i64 = 0  # number of searches so far
        self.rebuilt_at: i64 = 0  # number of searches before servers were last added or removed

    def open(self, server: Server) -> None:
        self.rebuilt_at = self.searches
        blocks = self.blocks
        if not blocks:
            blocks.append(Block([server], self.width))
            return
        number = max(bisect_left(blocks, server, key=first_server) - 1, 0)
        block = blocks[number]
        servers = block.servers
        insort(servers, server)
        if len(servers) > LARGEST_BLOCK:
            half = LARGEST_BLOCK // 2
            blocks.insert(number + 1, Block(servers[half:], self.width))
            block.servers = servers[:half]
        block.rebuild()

    def close(self, server: Server) -> None:
        block = server.block
        assert block is not None
        self.rebuilt_at = self.searches
        server.block = None
        del block.servers[server.slot]
        if block.servers:
            block.rebuild()
        else:
            self.blocks.remove(block)

    def change(self, server: Server) -> None:
        assert server.block is not None
        server.block.change(server, self.searches)

    def find(self, shape: Shape) -> Server | None:
        """Return the first server with room; skip blocks that had none, unless freed since."""
        need, since = shape.need, shape.searched_at
        passed = shape.passed if since > self.rebuilt_at else 0  # blocks that had no room then
        self.searches += 1
        shape.searched_at = self.searches
        number: i64 = 0
        for block in self.blocks:
            if (number >= passed or block.freed_at >= since) and fits(need, block.bounds):
                server = block.find(shape)
                if server is not None:
                    shape.passed = number
                    return server
            number += 1
        shape.passed = number
        return None

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        return min([server for server in servers if has_room(server, shape)], default=None)


def first_server(block: Block) -> Server:
    return block.servers[0]
