"""What every generator promises: same seed, same chunks, whoever asks and in whatever order."""

import hashlib
import pickle

import msgspec
import numpy as np
import pytest

from byway.model import Filter, check_attributes, parse
from byway.workload import (
    Clustered,
    CoveringDegree,
    Feeds,
    FilterChunk,
    Generator,
    Mobile,
    PublicationChunk,
    Siena,
    StockQuotes,
    Workflow,
    Workload,
    WorkloadError,
    Zipf,
)

GENERATORS: dict[str, Generator] = {
    "siena": Siena(seed=7),
    "zipf": Zipf(seed=7, names=50, values=1_000, value_exponent=1.3, between_share=0.3),
    "covering": CoveringDegree(seed=7, count=20_000, degree=12.5),
    "nested": CoveringDegree(
        seed=7, count=20_000, degree=4, nested=0.6, ranges=2, popularity_exponent=1
    ),
    "stocks": StockQuotes(seed=7),
    "enterprise": StockQuotes(seed=7, symbols=5, mix="enterprise", spread=0),
    "ranges": StockQuotes(seed=7, symbols=6_000, ranges=True, popularity_exponent=0.5),
    "clustered": Clustered(seed=7, count=20_000, degree=12.5),
    "feeds": Feeds(seed=7, feeds=60, density=10, popularity_exponent=1),
    "mobile": Mobile(seed=7, monitors=4, regions=4),
}

# Of chunks 0 and 3. If these change without a change of the generator, workloads made elsewhere (or
# by another numpy) are not ours. If they change with it, say so in the changelog.
DIGESTS = {
    "siena": "de4c17552812162e",
    "zipf": "0be54556caf1e9bb",
    "covering": "c0c5d773559db5cb",
    "nested": "8ef7e2f07ae5a971",
    "stocks": "50f1434a5aa0f0e7",
    "enterprise": "46198cb33411308f",
    "ranges": "03ed0d0f6f6b77ef",
    "clustered": "c0c5d773559db5cb",
    "feeds": "c34a3ac3f67ebeaf",
    "mobile": "a726767046fed21e",
}

every_generator = pytest.mark.parametrize("generator", GENERATORS.values(), ids=GENERATORS.keys())


def digest(*chunks: FilterChunk | PublicationChunk) -> str:
    state = hashlib.sha256()
    for chunk in chunks:
        state.update(repr((chunk.names, chunk.strings)).encode())
        for name, column in chunk.columns().items():
            state.update(name.encode())
            state.update(column.astype(column.dtype.newbyteorder("<")).tobytes())
    return state.hexdigest()[:16]


@pytest.mark.parametrize("name", GENERATORS)
def test_bytes_are_those_of_every_other_machine(name: str) -> None:
    generator = GENERATORS[name]
    found = digest(
        *[c for k in (0, 3) for c in (generator.subscriptions(k), generator.publications(k))]
    )
    assert found == DIGESTS[name]


@every_generator
def test_chunks_do_not_depend_on_the_order_they_are_made_in(generator: Generator) -> None:
    forward = [(generator.subscriptions(k), generator.publications(k)) for k in range(4)]
    again = pickle.loads(pickle.dumps(generator))
    for k in (3, 1, 0, 2):
        publications, subscriptions = again.publications(k), again.subscriptions(k)
        assert digest(*forward[k]) == digest(subscriptions, publications)


@every_generator
def test_chunks_and_seeds_differ(generator: Generator) -> None:
    other = msgspec.structs.replace(generator, seed=8)
    chunks = [generator.subscriptions(0), generator.subscriptions(1), other.subscriptions(0)]
    assert len({digest(chunk) for chunk in chunks}) == 3
    parts = [generator.publications(0), generator.publications(1), other.publications(0)]
    assert len({digest(part) for part in parts}) == 3


@every_generator
def test_columns_have_the_declared_types(generator: Generator) -> None:
    filters, publications = generator.subscriptions(1), generator.publications(1)
    assert len(filters) == len(publications) == generator.ROWS
    assert {name: str(c.dtype) for name, c in filters.columns().items()} == {
        "offsets": "int32",
        "name_ids": "int32",
        "operators": "uint8",
        "numbers": "float64",
        "highs": "float64",
        "string_ids": "int32",
    }
    assert {name: str(c.dtype) for name, c in publications.columns().items()} == {
        "offsets": "int32",
        "name_ids": "int32",
        "kinds": "uint8",
        "numbers": "float64",
        "string_ids": "int32",
    }


@every_generator
def test_names_ascend_within_a_filter(generator: Generator) -> None:
    chunk = generator.subscriptions(0)
    assert list(chunk.names) == sorted(set(chunk.names))
    rises = np.diff(chunk.name_ids) > 0
    rises[chunk.offsets[1:-1] - 1] = True  # from one row to the next
    assert rises.all()


@every_generator
def test_filters_are_canonical(generator: Generator) -> None:
    chunk = generator.subscriptions(0).slice(0, 500)
    filters = chunk.filters()
    assert [parse(text) for text in chunk.texts()] == filters
    for f in filters:
        assert Filter.where(dict(f.conjunctions[0].terms)) == f


@every_generator
def test_publications_are_valid(generator: Generator) -> None:
    chunk = generator.publications(0).slice(0, 500)
    publications = chunk.publications()
    assert [len(p) for p in publications] == np.diff(chunk.offsets).tolist()
    for publication in publications:
        check_attributes(publication)


@every_generator
def test_taking_crosses_chunks_and_stops_in_the_middle_of_one(generator: Generator) -> None:
    count = generator.ROWS + 3
    filters, publications = generator.take_filters(count), generator.take_publications(count)
    assert len(filters) == len(publications) == count
    assert filters[-3:] == generator.subscriptions(1).filters()[:3]
    assert publications[-3:] == generator.publications(1).publications()[:3]
    assert generator.take_filters(2) == filters[:2]
    assert generator.take_filters(0) == generator.take_publications(0) == []


@every_generator
def test_parameters_survive_json(generator: Generator) -> None:
    text = msgspec.json.encode(generator)
    assert msgspec.json.decode(text, type=Workload) == generator


def test_the_type_is_part_of_the_json() -> None:
    assert msgspec.json.decode(b'{"type":"Siena","seed":4}', type=Workload) == Siena(seed=4)
    with pytest.raises(msgspec.ValidationError, match="unknown field `sed`"):
        msgspec.json.decode(b'{"type":"Siena","sed":4}', type=Workload)


def test_a_wrong_parameter_is_named() -> None:
    with pytest.raises(WorkloadError) as caught:
        Siena(seed=-1)
    assert str(caught.value) == "seed = -1: expected a number from 0 to 4294967295"
    assert (caught.value.parameter, caught.value.value) == ("seed", -1)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (Siena, {"constraints_max": 65}),
        (Siena, {"constraints_min": 11}),
        (Siena, {"attributes_max": 0}),
        (Siena, {"names": 0}),
        (Siena, {"name_exponent": -0.1}),
        (Zipf, {"less_share": 0.6, "greater_share": 0.5}),
        (Zipf, {"names": 18}),
        (Zipf, {"names": 1_000, "name_exponent": 5}),
        (CoveringDegree, {"count": 30, "degree": 30}),
        (CoveringDegree, {"nested": 1}),
        (CoveringDegree, {"ranges": 4}),
        (CoveringDegree, {"hit": 1.1}),
        (StockQuotes, {"symbols": 0}),
        (StockQuotes, {"symbols": 20_001}),
        (StockQuotes, {"spread": 1}),
        (Clustered, {"cluster_min": 5}),
        (Clustered, {"brokers": 3}),
        (Feeds, {"feeds": 121}),
        (Feeds, {"density": 1_000, "brokers": 50_000, "subscribers": 50_000}),
        (Mobile, {"commuters": 0.6, "wanderers": 0.5}),
        (Mobile, {"regions": 17}),
        (Workflow, {"audit_for_s": 600}),
    ],
)
def test_a_workload_that_cannot_be_is_refused(
    kind: type[Generator], parameters: dict[str, float]
) -> None:
    with pytest.raises(WorkloadError):
        kind(**parameters)
