"""The page about the broker tells of every setting, input and action."""

from pathlib import Path
from typing import get_args

import pytest

from byway.core.actions import Action
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import Input

PAGE = (Path(__file__).parents[2] / "docs/reference/broker.md").read_text()
SETTINGS = BrokerConfig.__struct_fields__
KINDS = [kind.__name__ for kind in (*get_args(Input), *get_args(Action))]


@pytest.mark.parametrize("name", [*SETTINGS, *KINDS])
def test_it_is_told(name: str) -> None:
    assert f"`{name}" in PAGE
