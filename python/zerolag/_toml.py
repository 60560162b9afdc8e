"""Writes a dict as the TOML of a scenario. The standard library reads TOML, and does not write it."""

from __future__ import annotations

import json
import numbers
import re
from typing import Any, Iterable, Mapping

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def is_bool(value: object) -> bool:
    """Returns whether a value is true or false: also one of numpy, which is no `bool`."""
    return type(value).__name__ in ("bool", "bool_")


def _key(key: object) -> str:
    text = str(key)
    return text if _BARE.match(text) else json.dumps(text, ensure_ascii=False)


def _value(value: Any, path: str) -> str:
    if is_bool(value):
        return "true" if value else "false"
    if isinstance(value, str):
        # A string of JSON is one of TOML, but for the delete character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    # Also the numbers of numpy, which are registered there.
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, Mapping):
        inner = (f"{_key(key)} = {_value(item, f'{path}.{key}')}" for key, item in _items(value))
        return "{ " + ", ".join(inner) + " }"
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        return "[" + ", ".join(_value(item, f"{path}[{at}]") for at, item in enumerate(value)) + "]"
    raise TypeError(f"`{path}`: a {type(value).__name__} has no form in a scenario; write text, numbers, lists or dicts")


def _items(table: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return ((key, value) for key, value in table.items() if value is not None)


def dumps(document: Mapping[str, Any]) -> str:
    """Returns the text of a scenario: a table per entry, so that messages name lines that mean something."""
    lines: list[str] = []
    tables: list[str] = []

    def table(path: list[str], content: Mapping[Any, Any]) -> None:
        tables.append(f"[{'.'.join(_key(part) for part in path)}]")
        tables.extend(f"{_key(key)} = {_value(item, '.'.join([*path, str(key)]))}" for key, item in _items(content))

    for key, value in _items(document):
        # `task`, `group`, `service` and so on hold tables by name; `machine` and the like are one.
        if isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values()):
            for name, inner in value.items():
                table([str(key), str(name)], inner)
        elif isinstance(value, Mapping):
            table([str(key)], value)
        elif isinstance(value, (list, tuple)) and value and all(isinstance(item, Mapping) for item in value):
            for item in value:
                tables.append(f"[[{_key(key)}]]")
                tables.extend(f"{_key(inner)} = {_value(of, f'{key}.{inner}')}" for inner, of in _items(item))
        else:
            lines.append(f"{_key(key)} = {_value(value, str(key))}")
    return "\n".join([*lines, *tables]) + "\n"
