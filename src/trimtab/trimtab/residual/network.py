"""A bundle's graph in onnxruntime, its buffers bound once; normalisation and range check run inside the session.

A numpy call costs about as much as a node of the graph, and the range check alone would need five. So the session gets a
few nodes in front of the model, made from the manifest: raw values in, `x` and the distance from the training range out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from trimtab.errors import BundleRefused
from trimtab.residual.inspection import INPUT, session_options
from trimtab.residual.manifest import Manifest
from trimtab.typing import FloatArray

LOWEST = -1e6
"""Any finite input gives an excess above this; below it something was not finite (see `Network.excess`)."""
BAD = (math.nan, math.inf, -math.inf, 1e300)


@dataclass(frozen=True)
class _Names:
    raw: str
    excess: str


class Network:
    """One model with its buffers. `order[i]` is the place of the caller's joint i among the manifest's joints."""

    def __init__(self, graph: onnx.ModelProto, manifest: Manifest, order: np.ndarray, file: Path) -> None:
        model, names = _with_prelude(graph, manifest, order)
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), session_options(), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the runtime's own classes derive from Exception alone
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise BundleRefused(f"{file}: onnxruntime {onnxruntime.__version__} cannot load it: {reason}") from error
        self._file = file
        self.raw: FloatArray = np.zeros((1, manifest.width))
        """What to fill in before `run`: the quantities one after the other, each in the caller's joint order."""
        self._residual = np.zeros((1, manifest.dof), np.float32)
        self.residual = self._residual[0]
        """What `run` gave, float32, in the manifest's joint order [Nm]."""
        self._excess = np.zeros((1, 1), np.float32)
        self.excess = self._excess.item
        """How far the input lies outside the training range, in margins: up to 0 inside, 1 where confidence ends.

        Not above LOWEST, or not finite, when an input was not finite.
        """
        self._distance = np.zeros((1, 1), np.float32)
        self.distance = self._distance.item if manifest.distance is not None else None
        """The model's own distance from its training data."""
        self._states = [np.zeros((2, *state.shape), np.float32) for state in manifest.states]
        self._session = session
        bound = {names.raw: self.raw}, {names.excess: self._excess, manifest.residual: self._residual}
        if manifest.distance is not None:
            bound[1][manifest.distance] = self._distance
        self._bindings = [self._bind(manifest, *bound, turn) for turn in (0, 1)]
        # The public method checks for things that only GPUs have before it calls this: a tenth of a small model's time.
        self._call = session._sess.run_with_iobinding
        self._here, self._there = (binding._iobinding for binding in self._bindings)
        self.run: Callable[[], Any] = self._step if self._states else partial(self._call, self._here, None)
        """One step: reads `raw` and the states, leaves the outputs in place."""

    def _step(self) -> None:
        self._call(self._here, None)
        self._here, self._there = self._there, self._here

    def reset(self) -> None:
        """Zeroes the recurrent state."""
        for state in self._states:
            state.fill(0.0)

    def ask(self, raw: FloatArray) -> FloatArray:
        """The residual for one raw input from a fresh state, shape (dof,) in the manifest's joint order [Nm]."""
        self.reset()
        self.raw[0] = raw
        try:
            self.run()
        except Exception as error:  # the runtime's own classes derive from Exception alone
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise BundleRefused(f"{self._file}: fails when it runs: {reason}") from error
        self.reset()
        answer: FloatArray = self.residual.astype(np.float64)
        return answer

    def require_alarm(self, inside: FloatArray) -> None:
        """Tries that no input that is not finite passes for a good one, on this machine's own arithmetic."""
        for i in range(self.raw.size):
            for bad in BAD:
                raw = inside.copy()
                raw[i] = bad
                self.ask(raw)
                excess = self.excess()
                if LOWEST < excess < math.inf:
                    raise BundleRefused(
                        f"{self._file}: onnxruntime {onnxruntime.__version__} takes {bad} for {excess} on this machine; "
                        "install the version that constraints.txt names"
                    )

    def _bind(self, manifest: Manifest, inputs: dict[str, Any], outputs: dict[str, Any], turn: int) -> Any:
        """A binding of all tensors; the states of turn 0 are read where turn 1 writes them."""
        pairs = zip(manifest.states, self._states, strict=True)
        states = [(state, buffer[turn], buffer[1 - turn]) for state, buffer in pairs]
        inputs = inputs | {state.input: source for state, source, _ in states}
        outputs = outputs | {state.output: target for state, _, target in states}
        binding = self._session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return binding


def _with_prelude(graph: onnx.ModelProto, manifest: Manifest, order: np.ndarray) -> tuple[onnx.ModelProto, _Names]:
    """A copy of the model that takes raw float64 values in the caller's joint order, and also gives their excess.

    Both are matrix products: `x` = raw A + a permutes and normalises, excess = max(raw B + b) looks at both ends of each
    range. A product also carries a NaN or infinity in one input to all columns (0 * NaN is NaN), so that no maximum can
    miss it.
    """
    model = onnx.ModelProto()
    model.CopyFrom(graph)
    body = model.graph
    prefix = _free_prefix(body)
    names = _Names(f"{prefix}raw", f"{prefix}excess")
    dof, width = manifest.dof, manifest.width
    columns = np.concatenate([block * dof + np.asarray(order) for block in range(len(manifest.inputs))])
    mean, scale, low, high = (
        np.concatenate([getattr(one, name) for one in manifest.inputs]) for name in ("mean", "scale", "low", "high")
    )
    normalise = np.zeros((width, width))
    normalise[np.arange(width), columns] = 1.0 / scale[columns]
    reach = manifest.confidence.margin * (high - low)
    limits = np.zeros((width, 2 * width))
    limits[np.arange(width), columns] = 1.0 / reach[columns]
    limits[np.arange(width), width + columns] = -1.0 / reach[columns]
    tables = {
        "A": normalise,
        "a": -mean / scale,
        "B": limits,
        "b": np.concatenate([-high / reach, low / reach]),
    }
    body.initializer.extend(numpy_helper.from_array(value.astype(np.float32), prefix + key) for key, value in tables.items())
    prelude = [
        helper.make_node("Cast", [names.raw], [f"{prefix}single"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Gemm", [f"{prefix}single", f"{prefix}A", f"{prefix}a"], [INPUT]),
        helper.make_node("Gemm", [f"{prefix}single", f"{prefix}B", f"{prefix}b"], [f"{prefix}ends"]),
        helper.make_node("ReduceMax", [f"{prefix}ends"], [names.excess], keepdims=1),
    ]
    nodes = [*prelude, *body.node]
    del body.node[:]
    body.node.extend(nodes)
    inputs = [one for one in body.input if one.name != INPUT]
    del body.input[:]
    body.input.extend([helper.make_tensor_value_info(names.raw, onnx.TensorProto.DOUBLE, [1, width]), *inputs])
    body.output.append(helper.make_tensor_value_info(names.excess, onnx.TensorProto.FLOAT, [1, 1]))
    return model, names


def _free_prefix(graph: onnx.GraphProto) -> str:
    """A beginning that no tensor of the model's has."""
    taken = {one.name for one in (*graph.input, *graph.output, *graph.initializer)}
    taken |= {name for node in graph.node for name in (*node.input, *node.output)}
    prefix = "prelude."
    while any(name.startswith(prefix) for name in taken):
        prefix = "_" + prefix
    return prefix
