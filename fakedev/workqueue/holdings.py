"""What belongs to whom: the requests of a client, the jobs and the waits of a worker."""

from __future__ import annotations

from typing import Generic, TypeVar

Party = TypeVar("Party")
Thing = TypeVar("Thing")


class Holdings(Generic[Party, Thing]):
    """Things by number for each party; a party without any is not known here."""

    __slots__ = ("_by_party",)

    def __init__(self) -> None:
        self._by_party: dict[Party, dict[int, Thing]] = {}

    def __len__(self) -> int:
        return len(self._by_party)

    def add(self, party: Party, number: int, thing: Thing) -> None:
        """A party has one more."""
        things = self._by_party.get(party)
        if things is None:
            self._by_party[party] = {number: thing}
        else:
            things[number] = thing

    def get(self, party: Party, number: int) -> Thing | None:
        """The thing of this number, when the party has it."""
        things = self._by_party.get(party)
        return None if things is None else things.get(number)

    def count(self, party: Party) -> int:
        """How many a party has."""
        things = self._by_party.get(party)
        return 0 if things is None else len(things)

    def remove(self, party: Party, number: int) -> None:
        """A party has one less."""
        things = self._by_party[party]
        del things[number]
        if not things:
            del self._by_party[party]

    def all_of(self, party: Party) -> list[Thing]:
        """What a party has, in the order in which it got it; a list of its own."""
        return list(self._by_party.get(party, {}).values())
