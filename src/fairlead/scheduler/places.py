"""Where tasks may run: conditions on servers, and kinds of servers that the same ones admit."""

from __future__ import annotations

from librt.vecs import append, vec

from fairlead.scheduler.tables import Kind, Labels, Place, PlaceKey, Server

KindKey = tuple[Labels, frozenset[Place]]


class Places:
    """All conditions that some shape has, and the kinds of all servers."""

    places: dict[PlaceKey, Place]
    naming: dict[str, set[Place]]  # the conditions that name a server, whether it is there or not
    kinds: dict[KindKey, Kind]  # by labels and the conditions that name their servers
    by_number: list[Kind]
    spare: list[int]  # numbers of kinds that no server has any more

    def __init__(self) -> None:
        self.places = {}
        self.naming = {}
        self.kinds = {}
        self.by_number = []
        self.spare = []

    def find(self, key: PlaceKey) -> Place:
        """Return a condition; a new one is known once a shape has it."""
        place = self.places.get(key)
        return Place(key) if place is None else place

    def remember(self, place: Place) -> bool:
        """Count a shape of a condition; return whether it is the first."""
        place.shapes += 1
        if place.shapes > 1:
            return False
        self.places[place.key] = place
        for name in place.names or ():
            self.naming.setdefault(name, set()).add(place)
        place.allowed = vec[bool]([kind.is_admitted(place) for kind in self.by_number])
        return True

    def forget(self, place: Place) -> None:
        """Count one shape of a condition less; without any it is forgotten."""
        place.shapes -= 1
        if place.shapes > 0:
            return
        del self.places[place.key]
        for name in place.names or ():
            naming = self.naming[name]
            naming.remove(place)
            if not naming:
                del self.naming[name]

    def find_kind(self, server: Server) -> Kind:
        """Return the kind that a server is of now, by its labels and name."""
        naming = self.naming.get(server.name, set()) | self.naming.get(server.group, set())
        key = (server.labels, frozenset(naming))
        kind = self.kinds.get(key)
        if kind is None:
            if self.spare:
                number = self.spare.pop()
                kind = Kind(key[0], key[1], number)
                self.by_number[number] = kind
                for place in self.places.values():
                    place.allowed[number] = kind.is_admitted(place)
            else:
                kind = Kind(key[0], key[1], len(self.by_number))
                self.by_number.append(kind)
                for place in self.places.values():
                    place.allowed = append(place.allowed, kind.is_admitted(place))
            self.kinds[key] = kind
        return kind

    def enter(self, server: Server) -> None:
        """Give a server its kind."""
        kind = self.find_kind(server)
        kind.servers += 1
        server.kind = kind.number

    def exit(self, server: Server) -> None:
        """Take a server from its kind."""
        kind = self.by_number[server.kind]
        kind.servers -= 1
        if kind.servers == 0:
            del self.kinds[(kind.labels, kind.places)]
            self.spare.append(int(kind.number))
