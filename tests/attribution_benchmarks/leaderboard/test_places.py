"""Places of names: what a dictionary would say, in eight bytes a name."""

import random

import pytest

from attribution_benchmarks.leaderboard.places import Places


@pytest.mark.parametrize("seed", range(5))
def test_places_are_those_of_a_dictionary(seed):
    draw, numbers = random.Random(seed), {}
    names = [f"n{number}" for number in range(60)]
    places, known = [Places(numbers) for _ in range(3)], [{} for _ in range(3)]
    for place in range(1, 150):
        which, name = draw.randrange(3), draw.choice(names)
        places[which].add(name, place)
        known[which].setdefault(name, place)
        for one, other in zip(places, known, strict=True):
            assert len(one) == len(other) and list(one) == list(other)
            assert {name: one[name] for name in names if name in one} == other
    with pytest.raises(KeyError):
        places[0]["stranger"]


def test_many_series_of_the_same_inputs_take_eight_bytes_an_input_each():
    import tracemalloc

    numbers = {f"input {number}": number for number in range(10_000)}
    tracemalloc.start()
    found = [Places(numbers) for _ in range(10)]
    for places in found:
        for name, number in numbers.items():
            places.add(name, 12 * number + 1)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 10 * 10_000 * 8 * 1.25 and list(found[3]) == list(numbers)  # arrays grow by an eighth
