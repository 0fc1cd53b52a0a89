"""Reads YAML mappings strictly: a missing, unknown or mistyped field is an error that names file and field."""

import math
from pathlib import Path
from typing import Any

import yaml

from trimtab.errors import ConfigError


class _StrictLoader(yaml.SafeLoader):
    """A loader that refuses a key given twice, where YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"'{key}' is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


class Fields:
    """One YAML mapping whose fields are taken one by one; `done` refuses whatever is left over."""

    def __init__(self, mapping: Any, file: Path, where: str = "") -> None:
        self.file = file
        self.where = where
        if not isinstance(mapping, dict):
            raise ConfigError(f"{file}: {where or 'the file'} must be a mapping, not {type(mapping).__name__}")
        self._left: dict[str, Any] = {str(key): value for key, value in mapping.items()}

    @classmethod
    def of_file(cls, file: Path) -> "Fields":
        """The top mapping of a YAML file."""
        try:
            data = file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
        return cls.of_bytes(data, file)

    @classmethod
    def of_bytes(cls, data: bytes, file: Path) -> "Fields":
        """The top mapping of YAML that was read from `file`."""
        try:
            return cls(yaml.load(data.decode("utf-8"), Loader=_StrictLoader), file)
        except UnicodeDecodeError as error:
            raise ConfigError(f"{file}: is not a text file") from error
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f" line {mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or "malformed"
            raise ConfigError(f"{file}:{line} is not valid YAML: {problem}") from error
        except ValueError as error:  # a date or a tagged number that cannot be built
            raise ConfigError(f"{file}: is not valid YAML: {error}") from error
        except RecursionError as error:
            raise ConfigError(f"{file}: is not valid YAML: nested too deeply") from error

    def error(self, field: str, problem: str) -> ConfigError:
        """An error that names the file and the field."""
        return ConfigError(f"{self.file}: {self.path(field)} {problem}")

    def path(self, field: str) -> str:
        """The field's name with the names of the mappings around it."""
        return f"{self.where}.{field}" if self.where else field

    def names(self) -> list[str]:
        """Names of the fields not taken yet."""
        return list(self._left)

    def has(self, field: str) -> bool:
        """Whether the field is present and not taken yet."""
        return field in self._left

    def take(self, field: str) -> Any:
        """The raw value of a required field."""
        if field not in self._left:
            raise self.error(field, "is missing")
        return self._left.pop(field)

    def number(self, field: str, low: float = -math.inf, high: float = math.inf, default: float | None = None) -> float:
        """A finite number within [low, high]."""
        if default is not None and not self.has(field):
            return default
        return self._finite(field, self.take(field), low, high)

    def interval(self, field: str) -> tuple[float, float]:
        """A pair [low, high] with low < high."""
        value = self.take(field)
        if not isinstance(value, list) or len(value) != 2:
            raise self.error(field, f"must be a pair [low, high], not {value!r}")
        low, high = (self._finite(field, item, -math.inf, math.inf) for item in value)
        if low >= high:
            raise self.error(field, f"must have low < high, not [{low}, {high}]")
        return low, high

    def text(self, field: str, choices: tuple[str, ...] = ()) -> str:
        """A string, one of `choices` where they are given."""
        value = self.take(field)
        if not isinstance(value, str) or (choices and value not in choices):
            wanted = f"one of {', '.join(choices)}" if choices else "a text"
            hint = " (write it in quotes)" if isinstance(value, bool) else ""
            raise self.error(field, f"must be {wanted}, not {value!r}{hint}")
        return value

    def numbers(self, field: str, count: int, low: float = -math.inf, high: float = math.inf) -> tuple[float, ...]:
        """A list of `count` finite numbers, each within [low, high]."""
        items = self._list(field, "numbers")
        if len(items) != count:
            raise self.error(field, f"must be a list of {count} numbers, not of {len(items)}")
        return tuple(self._finite(f"{field}[{i}]", item, low, high) for i, item in enumerate(items))

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of different texts, at least one."""
        items = self._list(field, "texts")
        for i, item in enumerate(items):
            if not isinstance(item, str):
                raise self.error(f"{field}[{i}]", f"must be a text, not {item!r}")
            if items.index(item) != i:
                raise self.error(field, f"names '{item}' twice")
        if not items:
            raise self.error(field, "must name at least one")
        return tuple(items)

    def mappings(self, field: str) -> "list[Fields]":
        """A list of nested mappings."""
        items = self._list(field, "mappings")
        return [Fields(item, self.file, self.path(f"{field}[{i}]")) for i, item in enumerate(items)]

    def mapping(self, field: str) -> "Fields":
        """A nested mapping."""
        return Fields(self.take(field), self.file, self.path(field))

    def done(self) -> None:
        """Refuses fields that nothing took: a misspelt field must not pass as a default."""
        if self._left:
            raise self.error(next(iter(self._left)), "is not a known field")

    def _list(self, field: str, what: str) -> list[Any]:
        value = self.take(field)
        if not isinstance(value, list):
            raise self.error(field, f"must be a list of {what}, not {value!r}")
        return value

    def _finite(self, field: str, value: Any, low: float, high: float) -> float:
        try:
            finite = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
        except OverflowError:  # a whole number beyond all floats
            finite = False
        if not finite:
            raise self.error(field, f"must be a finite number, not {value!r}")
        if not low <= value <= high:
            raise self.error(field, f"must lie within [{low:g}, {high:g}], not {value!r}")
        return float(value)
