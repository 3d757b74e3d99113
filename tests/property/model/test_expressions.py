"""What a text means equals what its expression tree means, worked out independently."""

from hypothesis import given
from hypothesis import strategies as st

from byway.model import Value, parse
from tests.property.model.expressions import Expression, expressions, render, truth
from tests.strategies import publications, publications_near


@given(expressions(), publications())
def test_a_text_matches_what_its_tree_says(
    expression: Expression, attributes: dict[str, Value]
) -> None:
    text = render(expression)
    assert parse(text).matches(attributes) is (truth(expression, attributes) is True), text


@given(st.data(), expressions(6))
def test_also_at_the_bounds_the_text_names(data: st.DataObject, expression: Expression) -> None:
    f = parse(render(expression))
    for _ in range(3):
        attributes = data.draw(publications_near(f))
        assert f.matches(attributes) is (truth(expression, attributes) is True)


@given(expressions(8), publications())
def test_canonical_text_means_the_same(
    expression: Expression, attributes: dict[str, Value]
) -> None:
    f = parse(render(expression))
    again = parse(str(f))
    assert again == f
    assert again.matches(attributes) is (truth(expression, attributes) is True)
