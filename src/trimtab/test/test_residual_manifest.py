"""A manifest reads back as it was written, and every field that is wrong is named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from bundle_maker import make_manifest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trimtab.arm import Arm
from trimtab.errors import BundleRefused
from trimtab.residual.manifest import MANIFEST, Manifest, load_manifest, parse_manifest
from trimtab.residual.parts import Confidence, Input, Probe, Signature, State

FILE = Path("mlp/1/manifest.yaml")
finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
words = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)
free = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def numbers(count: int, low: float | None = None) -> st.SearchStrategy[tuple[float, ...]]:
    one = finite if low is None else st.floats(low, 1e12)
    return st.lists(one, min_size=count, max_size=count).map(tuple)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    joints = tuple(draw(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3, unique=True)))
    dof = len(joints)
    quantities = draw(st.lists(st.sampled_from(["q_des", "qd", "error", "baseline"]), min_size=1, max_size=3, unique=True))
    inputs = tuple(
        Input(quantity, draw(numbers(dof)), draw(numbers(dof, 1e-9)), (-1.0,) * dof, draw(numbers(dof, 1e-3)))
        for quantity in quantities
    )
    distance = draw(st.none() | st.just("far"))
    return Manifest(
        name=draw(words),
        version=draw(words),
        family="mlp",
        arm=draw(st.text(max_size=8)),
        joints=joints,
        rate=draw(st.floats(1.0, 1e4)),
        gravity=draw(st.sampled_from(["robot", "stack"])),
        controller="friction+observer",
        inputs=inputs,
        confidence=Confidence(0.5) if distance is None else Confidence(0.5, 1.0, 2.5),
        bounds={joint: draw(st.floats(1e-9, 1e3)) for joint in joints},
        probes=tuple(Probe(draw(numbers(dof * len(inputs))), draw(numbers(dof))) for _ in range(3)),
        states=draw(st.sampled_from([(), (State("h", "h_next", (1, 16)),)])),
        distance=distance,
        trained_on=draw(st.dictionaries(st.text(max_size=6), free, max_size=3)),
        scores=draw(st.dictionaries(st.text(max_size=6), free, max_size=3)),
        sha256=draw(st.from_regex(r"[0-9a-f]{64}", fullmatch=True)),
        signature=draw(st.none() | st.just(Signature("ab" * 32, "c2ln"))),
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(manifests())
def test_reads_back_as_written(manifest: Manifest) -> None:
    again = parse_manifest(manifest.text().encode(), FILE)
    assert again == manifest
    assert again.canonical() == manifest.canonical()


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(manifests(), st.data())
def test_the_signed_bytes_hold_every_field_but_the_signature(manifest: Manifest, data: st.DataObject) -> None:
    assert replace(manifest, signature=Signature("00" * 32, "eA==")).canonical() == manifest.canonical()
    joint = manifest.joints[0]
    changes: dict[str, Any] = {
        "name": manifest.name + "x",
        "version": manifest.version + "0",
        "arm": manifest.arm + "x",
        "rate": manifest.rate + 1.0,
        "gravity": "robot" if manifest.gravity == "stack" else "stack",
        "bounds": {**manifest.bounds, joint: manifest.bounds[joint] * 2.0},
        "confidence": replace(manifest.confidence, margin=0.75),
        "residual": manifest.residual + "x",
        "scores": {**manifest.scores, "more words": 1},
        "sha256": "".join("1" if digit == "0" else "0" for digit in manifest.sha256),
        "probes": manifest.probes[1:],
    }
    field = data.draw(st.sampled_from(sorted(changes)))
    assert replace(manifest, **{field: changes[field]}).canonical() != manifest.canonical()


@pytest.fixture
def document(ur5e: Arm) -> dict[str, Any]:
    manifest = make_manifest(ur5e, distance=True, recurrent=True)
    probes = tuple(Probe(probe.x, (0.0,) * ur5e.dof) for probe in manifest.probes)
    plain: dict[str, Any] = replace(manifest, probes=probes, sha256="0" * 64).document()
    return plain


def parse(document: object) -> Manifest:
    return parse_manifest(yaml.safe_dump(document).encode(), FILE)


def test_the_fixture_is_fine(document: dict[str, Any]) -> None:
    parse(document)


def drop(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda document: document.pop(name)


def put(*path: Any, to: object) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put("schema", to=2), "schema 2 is unknown, this version reads 1; update trimtab or export again"),
        (drop("schema"), "schema is missing"),
        (put("family", to="lstm"), r"family 'lstm' is unknown \(known: mlp\); update trimtab"),
        (put("name", to="../mlp"), "name must be letters"),
        (put("name", to="/mlp"), "name must be letters"),
        (put("version", to=".."), "version must be letters"),
        (put("version", to=1), "version must be a text, not 1"),
        (put("joints", to=[]), "joints must name at least one"),
        (put("joints", 1, to="shoulder_pan_joint"), "joints names 'shoulder_pan_joint' twice"),
        (put("joints", 1, to=3), r"joints\[1\] must be a text"),
        (put("rate", to=0), "rate must lie within"),
        (put("units", "position", to="deg"), "units.position is 'deg', only 'rad' is taken; export the model in SI units"),
        (put("units", "torque", to="mNm"), "units.torque is 'mNm', only 'Nm' is taken"),
        (put("units", to={"position": "rad"}), "units.velocity is missing"),
        (put("gravity", to="nobody"), "gravity must be one of robot, stack"),
        (put("controller", to="magic"), "controller is refused: unknown controller 'magic'"),
        (put("inputs", to=[]), "inputs must name at least one quantity"),
        (put("inputs", to={}), "inputs must be a list of mappings"),
        (put("inputs", 0, "quantity", to="colour"), r"inputs\[0\].quantity must be one of"),
        (put("inputs", 1, "quantity", to="q_des"), r"inputs\[1\].quantity 'q_des' is given twice"),
        (put("inputs", 0, "mean", to=[0.0]), r"inputs\[0\].mean must be a list of 6 numbers, not of 1"),
        (put("inputs", 0, "scale", 2, to=0.0), r"inputs\[0\].scale\[2\] must lie within"),
        (put("inputs", 0, "low", 2, to=1e3), r"inputs\[0\].low\[2\] must be below high\[2\]"),
        (put("inputs", 0, "mean", 0, to=float("nan")), r"inputs\[0\].mean\[0\] must be a finite number"),
        (put("inputs", 0, "extra", to=1), r"inputs\[0\].extra is not a known field"),
        (put("states", 0, "shape", to=[1, 0]), r"states\[0\].shape must be a list of whole numbers"),
        (put("states", 0, "shape", to=[True]), r"states\[0\].shape must be a list of whole numbers"),
        (put("outputs", to={}), "outputs.residual is missing"),
        (put("confidence", "margin", to=0), "confidence.margin must lie within"),
        (put("confidence", "trusted", to=9.0), "confidence.trusted must be below unknown"),
        (put("outputs", to={"residual": "residual"}), "confidence.trusted is only for models with a distance output"),
        (put("bounds", to={}), "bounds.shoulder_pan_joint is missing"),
        (put("bounds", "elbow_joint", to=-1), "bounds.elbow_joint must lie within"),
        (put("bounds", "tail", to=1), "bounds.tail is not a known field"),
        (put("probes", to=[]), "probes must be at least 3, not 0"),
        (put("probes", 0, "x", to=[1.0]), r"probes\[0\].x must be a list of 18 numbers, not of 1"),
        (put("probes", 0, "residual", to="none"), r"probes\[0\].residual must be a list of numbers"),
        (put("trained_on", to="logs"), "trained_on must be a mapping"),
        (put("scores", "best", to=float("inf")), "scores holds inf; write it as a text or a finite number"),
        (put("scores", "inner", to={3: 4}), "scores has a key that is no text"),
        (put("scores", "many", to=[0] * 6000), "scores holds more than"),
        (put("sha256", to="ABC"), "sha256 must be 64 lower-case hex digits"),
        (put("signature", to={"key": "0" * 64}), "signature.value is missing"),
        (put("signature", to={"key": "0", "value": "x"}), "signature.key must be 64 lower-case hex digits"),
        (put("surprise", to=1), "surprise is not a known field"),
    ],
)
def test_what_is_wrong_is_named(document: dict[str, Any], change: Callable[[Any], object], text: str) -> None:
    change(document)
    with pytest.raises(BundleRefused, match=r"mlp/1/manifest\.yaml: " + text):
        parse(document)


@pytest.mark.parametrize(
    "data",
    [
        b"a: [1",
        b"\xff\xfe",
        b"",
        b"[" * 5000,
        b"schema: 1\nschema: 1",
        b"schema: !!python/object/apply:os.system [ls]",
        b"&a [*a]",
    ],
)
def test_malformed_files_are_refused(data: bytes) -> None:
    with pytest.raises(BundleRefused, match=r"manifest\.yaml"):
        parse_manifest(data, FILE)


def test_a_document_that_unfolds_without_end_is_refused(document: dict[str, Any]) -> None:
    layers = "\n".join(f"  l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 12))
    text = yaml.safe_dump({**document, "scores": 0}).replace("scores: 0", f"scores:\n  l0: &l0 [x]\n{layers}")
    with pytest.raises(BundleRefused, match="scores holds more than"):
        parse_manifest(text.encode(), FILE)


@pytest.mark.parametrize("text", ["\x85", "a\u2028b", "\ufeff", "\x00", "no", "1e3", "2024-01-01", " ", "é", "\U0001f600"])
def test_odd_texts_read_back_as_written(document: dict[str, Any], text: str) -> None:
    manifest = replace(parse(document), scores={text: [text]})
    assert parse_manifest(manifest.text().encode(), FILE) == manifest


def test_is_saved_whole_and_loaded(document: dict[str, Any], tmp_path: Path) -> None:
    manifest = parse(document)
    manifest.save(tmp_path)
    assert load_manifest(tmp_path / MANIFEST) == manifest
    assert [file.name for file in tmp_path.iterdir()] == [MANIFEST]
