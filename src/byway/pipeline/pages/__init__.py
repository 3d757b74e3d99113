"""Renders HTML pages from the templates of this package.

A page refers to no other file, so it opens without a network connection. What is on it is decided
by the caller.
"""

from __future__ import annotations

from typing import Any


def render(template: str, **values: Any) -> str:
    """The page that a template of this package makes of `values`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("byway.pipeline", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(f"{template}.html.j2").render(values)
