"""Pages: HTML from templates, with everything in it, so that it opens without a network connection.

What is on a page is decided by those who render it.
"""

from __future__ import annotations

from typing import Any


def render(template: str, **values: Any) -> str:
    """The page that a template of this room makes of some values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("byway.pipeline", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(f"{template}.html.j2").render(values)
