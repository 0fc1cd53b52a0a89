"""The manifest of a model bundle: its fields, its file, and the bytes that a signature covers."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trimtab.errors import BundleRefused, ConfigError
from trimtab.fields import Fields
from trimtab.files import write_whole
from trimtab.names import parse_controller
from trimtab.residual.parts import (
    UNITS,
    Confidence,
    Input,
    Probe,
    Signature,
    State,
    read_confidence,
    read_folder_name,
    read_free,
    read_inputs,
    read_pattern,
    read_probes,
    read_signature,
    read_state,
    read_units,
)
from trimtab.residual.reading import read_file

SCHEMA = 1
MANIFEST = "manifest.yaml"
MODEL = "model.onnx"
MAX_MANIFEST = 256 * 1024  # bytes
FAMILIES = ("mlp",)


@dataclass(frozen=True)
class Manifest:
    """All that a bundle says of its model."""

    name: str
    version: str
    family: str
    arm: str
    joints: tuple[str, ...]
    """The order of the model's tensors."""
    rate: float
    """[Hz]"""
    gravity: str
    """Who compensates gravity: `robot` or `stack`."""
    controller: str
    """The classical controller that it was trained on top of."""
    inputs: tuple[Input, ...]
    confidence: Confidence
    bounds: dict[str, float]
    """Largest residual by joint [Nm]."""
    probes: tuple[Probe, ...]
    states: tuple[State, ...] = ()
    residual: str = "residual"
    """Name of the output tensor [1, dof] in Nm."""
    distance: str | None = None
    """Name of the output tensor [1, 1] that says how far from the training data the input is."""
    trained_on: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    sha256: str = ""
    """Of the model's file; empty until `write_bundle` fills it in."""
    signature: Signature | None = None

    @property
    def dof(self) -> int:
        """Number of joints."""
        return len(self.joints)

    @property
    def width(self) -> int:
        """Length of the model's input tensor `x`."""
        return len(self.inputs) * self.dof

    def document(self) -> dict[str, Any]:
        """The manifest as plain lists, mappings, texts and numbers."""
        confidence = {"margin": self.confidence.margin}
        if self.confidence.trusted is not None and self.confidence.unknown is not None:
            confidence |= {"trusted": self.confidence.trusted, "unknown": self.confidence.unknown}
        columns = ("mean", "scale", "low", "high")
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "name": self.name,
            "version": self.version,
            "family": self.family,
            "arm": self.arm,
            "joints": list(self.joints),
            "rate": self.rate,
            "units": dict(UNITS),
            "gravity": self.gravity,
            "controller": self.controller,
            "inputs": [
                {"quantity": one.quantity} | {column: list(getattr(one, column)) for column in columns}
                for one in self.inputs
            ],
            "states": [{"input": one.input, "output": one.output, "shape": list(one.shape)} for one in self.states],
            "outputs": {"residual": self.residual} | ({"distance": self.distance} if self.distance is not None else {}),
            "confidence": confidence,
            "bounds": dict(self.bounds),
            "probes": [{"x": list(one.x), "residual": list(one.residual)} for one in self.probes],
            "trained_on": self.trained_on,
            "scores": self.scores,
            "sha256": self.sha256,
        }
        if self.signature is not None:
            document["signature"] = {"key": self.signature.key, "value": self.signature.value}
        return document

    def canonical(self) -> bytes:
        """What a signature covers: everything but the signature itself, in one possible spelling."""
        document = self.document()
        document.pop("signature", None)
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        return text.encode("ascii")

    def text(self) -> str:
        """The manifest as YAML, in ASCII: PyYAML reads some characters back as others unless they are escaped."""
        return yaml.safe_dump(self.document(), sort_keys=False, default_flow_style=None, allow_unicode=False, width=120)

    def save(self, folder: Path) -> None:
        """Writes `manifest.yaml`, whole or not at all."""
        write_whole(folder / MANIFEST, self.text())


def load_manifest(file: Path) -> Manifest:
    """Reads a manifest and checks all that can be checked without the arm and the model."""
    return parse_manifest(read_file(file, MAX_MANIFEST), file)


def parse_manifest(data: bytes, file: Path) -> Manifest:
    """A manifest from the bytes of `file`."""
    try:
        return _manifest(Fields.of_bytes(data, file))
    except ConfigError as error:
        raise BundleRefused(str(error)) from error


def _manifest(fields: Fields) -> Manifest:
    schema = fields.number("schema")
    if schema != SCHEMA:
        raise fields.error("schema", f"{schema:g} is unknown, this version reads {SCHEMA}; update trimtab or export again")
    name, version = read_folder_name(fields, "name"), read_folder_name(fields, "version")
    family = fields.text("family")
    if family not in FAMILIES:
        raise fields.error("family", f"'{family}' is unknown (known: {', '.join(FAMILIES)}); update trimtab")
    arm, joints = fields.text("arm"), fields.texts("joints")
    dof = len(joints)
    rate = fields.number("rate", low=1.0, high=10_000.0)
    read_units(fields.mapping("units"))
    gravity = fields.text("gravity", ("robot", "stack"))
    controller = fields.text("controller")
    try:
        parse_controller(controller)
    except ConfigError as error:
        raise fields.error("controller", f"is refused: {error}") from error
    inputs = read_inputs(fields, dof)
    states = tuple(read_state(one) for one in fields.mappings("states"))
    outputs = fields.mapping("outputs")
    residual = outputs.text("residual")
    distance = outputs.text("distance") if outputs.has("distance") else None
    outputs.done()
    bounds_fields = fields.mapping("bounds")
    bounds = {joint: bounds_fields.number(joint, low=1e-9) for joint in joints}
    bounds_fields.done()
    manifest = Manifest(
        name=name,
        version=version,
        family=family,
        arm=arm,
        joints=joints,
        rate=rate,
        gravity=gravity,
        controller=controller,
        inputs=inputs,
        states=states,
        residual=residual,
        distance=distance,
        confidence=read_confidence(fields.mapping("confidence"), distance is not None),
        bounds=bounds,
        probes=read_probes(fields, len(inputs) * dof, dof),
        trained_on=read_free(fields, "trained_on"),
        scores=read_free(fields, "scores"),
        sha256=read_pattern(fields, "sha256", r"[0-9a-f]{64}", "64 lower-case hex digits"),
        signature=read_signature(fields.mapping("signature")) if fields.has("signature") else None,
    )
    fields.done()
    return manifest
