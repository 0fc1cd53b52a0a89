"""YAML is read strictly: whatever is wrong is named with its file and field, and never as a traceback."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trimtab.errors import ConfigError
from trimtab.fields import Fields


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.yaml"


def fields_of(file: Path, text: str) -> Fields:
    file.write_text(text, encoding="utf-8")
    return Fields.of_file(file)


def test_takes_what_is_there(file: Path) -> None:
    fields = fields_of(file, "a: 1\nb: -2.5\nc: word\nd: [0, 1.5]\ne: {f: 3}\n")
    assert fields.number("a") == 1.0
    assert isinstance(fields.number("b"), float)
    assert fields.text("c") == "word"
    assert fields.interval("d") == (0.0, 1.5)
    inner = fields.mapping("e")
    assert inner.number("f") == 3.0
    inner.done()
    fields.done()


@pytest.mark.parametrize(
    "value", ["yes", ".nan", ".inf", "-.inf", "'1'", "word", "[1]", "{b: 1}", "", "null", "1e3x", "1" + "0" * 400]
)
def test_number_refuses_what_is_no_finite_number(file: Path, value: str) -> None:
    fields = fields_of(file, f"inner: {{a: {value}}}").mapping("inner")
    with pytest.raises(ConfigError, match=r"file\.yaml: inner\.a must be a finite number"):
        fields.number("a")


@pytest.mark.parametrize(("value", "fine"), [("0.999", False), ("1", True), ("2", True), ("2.001", False)])
def test_number_keeps_its_range(file: Path, value: str, fine: bool) -> None:
    fields = fields_of(file, f"a: {value}")
    if fine:
        assert fields.number("a", low=1.0, high=2.0) == float(value)
    else:
        with pytest.raises(ConfigError, match=r"a must lie within \[1, 2\], not " + value):
            fields.number("a", low=1.0, high=2.0)


def test_a_default_is_for_an_absent_field_only(file: Path) -> None:
    assert fields_of(file, "b: 1").number("a", default=7.0) == 7.0
    assert fields_of(file, "a: 0").number("a", default=7.0) == 0.0
    with pytest.raises(ConfigError, match="a must be a finite number"):
        fields_of(file, "a: null").number("a", default=7.0)


@pytest.mark.parametrize("value", ["1", "[1]", "[1, 2, 3]", "[2, 1]", "[1, 1]", "[1, .nan]", "[a, b]", "{low: 1, high: 2}"])
def test_interval_refuses_what_is_no_interval(file: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"file\.yaml: a must "):
        fields_of(file, f"a: {value}").interval("a")


def test_text_refuses_other_types_and_other_choices(file: Path) -> None:
    with pytest.raises(ConfigError, match="a must be a text, not 1"):
        fields_of(file, "a: 1").text("a")
    with pytest.raises(ConfigError, match="a must be one of robot, stack, not 'nobody'"):
        fields_of(file, "a: nobody").text("a", ("robot", "stack"))
    with pytest.raises(ConfigError, match="write it in quotes"):
        fields_of(file, "a: true").text("a", ("true", "approximate"))


def test_missing_and_left_over_fields_are_named_with_their_place(file: Path) -> None:
    inner = fields_of(file, "outer: {inner: {a: 1, mispelt: 2}}").mapping("outer").mapping("inner")
    with pytest.raises(ConfigError, match=r"file\.yaml: outer\.inner\.misspelt is missing"):
        inner.take("misspelt")
    inner.number("a")
    with pytest.raises(ConfigError, match=r"file\.yaml: outer\.inner\.mispelt is not a known field"):
        inner.done()


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "word", "3"])
def test_a_file_that_is_no_mapping_is_refused(file: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"file\.yaml: the file must be a mapping"):
        fields_of(file, text)


def test_malformed_yaml_is_refused_with_its_line(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"file\.yaml: line 3 is not valid YAML"):
        fields_of(file, "a: 1\nb: 2\nc: 3: 4\nd: 5\n")


@pytest.mark.parametrize(
    "text", ["a: 2024-13-45", "a: !!int word", "a: !!float word", "a: !unknown 3", "a: \x01", "? [b]\n: 1"]
)
def test_a_value_that_yaml_cannot_build_is_refused_with_the_file(file: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"file\.yaml"):
        fields_of(file, text)


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"file\.yaml: cannot be read"):
        Fields.of_file(file)
    file.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match=r"file\.yaml: is not a text file"):
        Fields.of_file(file)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.text(alphabet="ab:-[]{}\n '\"&*!|>%@`0.1#,?~\t", max_size=30))
def test_no_text_whatever_gives_another_error(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    try:
        Fields.of_file(file)
    except ConfigError as error:
        assert str(file) in str(error)  # noqa: PT017 - most texts are refused, some are fine
