"""Where tasks may run: conditions on servers, and kinds of servers that the same ones admit."""

from __future__ import annotations

from librt.vecs import append

from fairlead.core.tables import Kind, Place, Server

PlaceKey = tuple[frozenset[tuple[str, str]], frozenset[str] | None]
KindKey = tuple[frozenset[tuple[str, str]], frozenset[Place]]


class Places:
    """All conditions that some shape has, and the kinds of all servers.

    Attributes
    ----------
    places : dict
        Conditions by labels and names.
    naming : dict of str to set of Place
        The conditions that name a server, whether it is there or not.
    kinds : dict
        Kinds by labels and the conditions that name their servers.
    spare : list of int
        Numbers of kinds that no server has any more.
    """

    def __init__(self) -> None:
        self.places: dict[PlaceKey, Place] = {}
        self.naming: dict[str, set[Place]] = {}
        self.kinds: dict[KindKey, Kind] = {}
        self.by_number: list[Kind] = []
        self.spare: list[int] = []

    def place(self, labels: frozenset[tuple[str, str]], names: frozenset[str] | None) -> Place:
        """Return a condition. One that is new may change the kinds of the servers it names."""
        key = (labels, names)
        place = self.places.get(key)
        if place is None:
            place = Place(labels, names)
            self.places[key] = place
            for name in names or ():
                self.naming.setdefault(name, set()).add(place)
            for kind in self.by_number:
                place.allowed = append(place.allowed, kind.is_admitted(place))
        return place

    def forget(self, place: Place) -> None:
        """Note that a shape with a condition is gone; the last one takes the condition along."""
        place.shapes -= 1
        if place.shapes > 0:
            return
        del self.places[(place.labels, place.names)]
        for name in place.names or ():
            naming = self.naming[name]
            naming.remove(place)
            if not naming:
                del self.naming[name]

    def find_kind(self, server: Server) -> Kind:
        """Return the kind that a server is of now, by its labels and name."""
        key = (server.labels, frozenset(self.naming.get(server.name, ())))
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
