"""The page of the API reference, made from signatures and docstrings of what `byway` exports.

`python -m tests.docs.api_reference` writes it; `test_api_reference` fails while the page differs.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import byway
from byway.model import errors

PAGE = Path(__file__).parents[2] / "docs/reference/api.md"

INTRODUCTION = """\
# API

These are all public names of the package `byway`, with their signatures and docstrings. A name
that is not listed here may change without notice. [Writing a client](../guide/client.md) explains
how to use them.

`python -m tests.docs.api_reference` makes this page from the code.
"""

SECTIONS = {
    "Connecting": "connect Client ClientStatus",
    "Publishing": "Advertisement Receipt",
    "Subscribing": "Subscription Event",
    "Brokers in this process": "LocalOverlay",
    "Filters": "parse Filter TRUE FALSE ANY covers intersects conforms merge Merge Value "
    "Attributes",
    "Matching": "MatchIndex",
    "Errors": " ".join(
        name
        for name in vars(errors)
        if name in byway.__all__ and issubclass(getattr(byway, name), Exception)
    ),
}
"""The names that are described, below the headings that they stand under."""
MEANINGS = {
    "TRUE": "The filter that matches every publication.",
    "FALSE": "The filter that matches none.",
    "ANY": "The advertisement that every publication conforms to.",
    "Value": "What an attribute may be: `bool`, `int` of 64 bits, `float` or `str`.",
    "Attributes": "The attributes of a publication, by name.",
}
"""Names that are no functions or classes, and so have no docstring of their own."""
EXPORTED = (*byway.__all__, *byway.blocking.__all__)
INTERNAL = (
    "put", "changed", "is_overfull", "is_full", "is_open", "error", "entries", "message", "parts",
    "unsettled",
    "is_reported", "is_blocking",
)  # fmt: skip
"""Members that the library itself uses."""
ENTERED = {"__await__": "await", "__aenter__": "async with", "__enter__": "with"}
ITERATED = {"__aiter__": "async for", "__iter__": "for"}


def sections() -> Iterator[str]:
    """The parts of the page."""
    yield INTRODUCTION
    for title, names in SECTIONS.items():
        yield f"## {title}\n"
        for name in names.split():
            yield from described(name, getattr(byway, name))
    if others := undivided():
        yield "## More\n"
        for name in others:
            yield from described(name, getattr(byway, name))
    yield "## Blocking\n"
    yield text_of(byway.blocking)
    yield from blocking()


def undivided() -> list[str]:
    """The public names that no section has, in the order of the alphabet."""
    listed = {name for names in SECTIONS.values() for name in names.split()}
    return sorted(set(byway.__all__) - listed - {"__version__", "blocking"})


def described(name: str, found: Any, module: str = "byway") -> Iterator[str]:
    """One public name: its signature, its docstring, its members."""
    heading = f"### `{module}.{name}` {{ #{module}.{name} }}\n"
    if name in MEANINGS:
        yield heading
        yield MEANINGS[name] + "\n"
    elif inspect.isclass(found):
        yield heading
        if bases := own_bases(found):
            yield f"A kind of {', '.join(bases)}.\n"
        yield text_of(found)
        yield from fields(found)
        yield from members(found)
    else:
        yield heading
        yield code(signature(name, found))
        yield text_of(found)


def blocking() -> Iterator[str]:
    """What `byway.blocking` exports: each class with what it has of its own."""
    for name in byway.blocking.__all__:
        yield from described(name, getattr(byway.blocking, name), "byway.blocking")


def own_bases(found: type) -> list[str]:
    """The bases that are public names, or exceptions of Python."""
    names = []
    for base in found.__bases__:
        if base.__name__ in byway.__all__:
            names.append(f"[`{base.__name__}`](#byway.{base.__name__})")
        elif issubclass(base, Exception) and base is not Exception:
            names.append(f"`{base.__name__}`")
    return names


def fields(found: type) -> Iterator[str]:
    """The attributes that a class, or such a base, declares, with the text below each."""
    declared = [
        (name, annotation, text)
        for cls in reversed(undescribed(found))
        for name, annotation, text in declarations(cls)
        if not name.startswith("_") and not annotation.startswith(("ClassVar", "Final"))
    ]
    if declared:
        yield "| attribute | type | meaning |\n|---|---|---|"
        for name, annotation, text in declared:
            yield f"| `{name}` | `{annotation.replace('|', chr(92) + '|')}` | {line_of(text)} |"
        yield ""


def declarations(found: type) -> Iterator[tuple[str, str, str]]:
    """Name, annotation and text of each annotated name in the body of a class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(found)))
    assert isinstance(tree.body[0], ast.ClassDef)
    body = tree.body[0].body
    for statement, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = str(after.value.value) if is_text else ""  # type: ignore[attr-defined]
            yield statement.target.id, ast.unparse(statement.annotation), text


def members(found: type) -> Iterator[str]:
    """The public methods and properties of a class, in the order of their definition."""
    uses = [use for name, use in (ENTERED | ITERATED).items() if hasattr(found, name)]
    if uses:
        yield f"Used with {', '.join(f'`{use}`' for use in uses)}.\n"
    if names := assigned(found):
        yield f"Attributes: {', '.join(f'`{name}`' for name in names)}.\n"
    for name, member in own(found):
        if isinstance(member, property):
            yield f"**`{name}`** (property)\n"
            yield text_of(member)
        elif isinstance(member, classmethod | staticmethod):
            yield code(signature(f"{found.__name__}.{name}", member.__func__, skip=1))
            yield text_of(member.__func__)
        elif inspect.isfunction(member):
            yield code(signature(name, member, skip=1))
            yield text_of(member)


def own(found: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class, and those of its bases that are not described themselves."""
    members = {
        name: member for cls in reversed(undescribed(found)) for name, member in vars(cls).items()
    }
    return ((name, member) for name, member in members.items() if is_public(name))


def undescribed(found: type) -> list[type]:
    """A class, and its bases in byway that are not described themselves."""
    own = [cls for cls in found.__mro__ if cls.__module__.startswith("byway.")]
    return [cls for cls in own if cls is found or cls.__name__ not in EXPORTED]


def assigned(found: type) -> list[str]:
    """The public attributes that a class, or such a base, sets when an object is made."""
    names = []
    for cls in reversed(undescribed(found)):
        if (
            inspect.isfunction(begin := vars(cls).get("__init__"))
            and begin.__module__ == cls.__module__
        ):
            for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(begin)))):
                targets = (
                    node.targets
                    if isinstance(node, ast.Assign)
                    else [getattr(node, "target", None)]
                )
                names += [
                    t.attr
                    for t in targets
                    if isinstance(t, ast.Attribute)
                    and isinstance(t.value, ast.Name)
                    and t.value.id == "self"
                    and is_public(t.attr)
                ]
    return list(dict.fromkeys(names))


def is_public(name: str) -> bool:
    return not name.startswith("_") and name not in INTERNAL


def code(text: str) -> str:
    return f"```text\n{text}\n```\n"


def signature(name: str, function: Any, skip: int = 0) -> str:
    """A call as one reads it in the source, without `self`; long ones on several lines."""
    found = inspect.signature(function)
    parts, is_keyword = [], False
    for parameter in list(found.parameters.values())[skip:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            is_keyword = True
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            parts.append("*")
            is_keyword = True
        text = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text += parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {annotation_text(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            equals = " = " if parameter.annotation is not parameter.empty else "="
            default = parameter.default
            text += f"{equals}{default.__name__ if callable(default) else repr(default)}"
        parts.append(text)
    begin = f"{'async ' if inspect.iscoroutinefunction(function) else ''}{name}("
    end = ")"
    if found.return_annotation not in (found.empty, None, "None"):
        end += f" -> {annotation_text(found.return_annotation)}"
    line = f"{begin}{', '.join(parts)}{end}"
    if len(line) <= 90:
        return line
    return "\n".join([begin, *(f"    {part}," for part in parts), end])


def annotation_text(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", text)


def text_of(found: Any) -> str:
    """A docstring as Markdown; indented examples become code."""
    text = inspect.getdoc(found)
    assert text, found
    return re.sub(r"(?:^    .*\n?)+", as_code, text, flags=re.M) + "\n"


def as_code(block: re.Match[str]) -> str:
    return code(textwrap.dedent(block[0]).rstrip())


def line_of(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page() -> str:
    """The whole page."""
    return "\n".join(sections()).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
