"""What a bag tells of itself comes back as it was told, and labels are checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import ConfigError
from trimtab.recording.context import LABELS, RecordingContext, parse_labels, split_labels

values = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"], exclude_characters=","), min_size=1, max_size=40)


@given(
    texts=st.fixed_dictionaries({}, optional=dict.fromkeys(("arm", "contract", "bundle", "seed", "dirty"), values)),
    labels=st.dictionaries(st.sampled_from([*LABELS, "x_own"]), values),
)
def test_what_was_told_comes_back(texts: dict[str, str], labels: dict[str, str]) -> None:
    context = RecordingContext(**texts, labels=labels)
    data = context.to_custom_data()
    assert RecordingContext.from_custom_data(data) == context
    assert all(isinstance(key, str) and isinstance(value, str) and value for key, value in data.items())


def test_data_of_another_origin_tells_nothing() -> None:
    assert RecordingContext.from_custom_data(None) == RecordingContext()
    assert RecordingContext.from_custom_data({"somebody": "else", "arm": None}) == RecordingContext()  # type: ignore[dict-item]


def test_labels_are_read() -> None:
    assert split_labels("payload=1kg, tool=gripper,x_operator=a=b") == {
        "payload": "1kg",
        "tool": "gripper",
        "x_operator": "a=b",
    }
    assert split_labels(" ") == {}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["payload"], "'payload' is not of the form key=value"),
        (["payload="], "is not of the form key=value"),
        (["paylod=1kg"], "unknown label 'paylod'; known: payload, temperature, tool, site, firmware, hardware; a key"),
        (["x_=1"], "unknown label"),
        (["tool=a", "tool=b"], "label tool is given twice"),
        (["tool=a\nb"], "one line"),
        (["tool=" + 201 * "a"], "at most 200"),
    ],
)
def test_a_bad_label_is_refused(texts: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_labels(texts)
