"""One arm's driver, residual and controller in one process, with messages by direct call: what hardware runs.

The nodes, topics and parameters are those of three processes. The driver's loop thread runs a whole cycle: it reads the
state, has the controller answer it, writes the command, has the residual make its offer for the next state, and leaves the
messages to the outbox.
"""

from trimtab.timing import CycleTimes
from trimtab_ros.controller_node import Controller
from trimtab_ros.delivery import Exchange
from trimtab_ros.hosting import run_nodes
from trimtab_ros.managed import ManagedNode
from trimtab_ros.residual_node import Residual
from trimtab_ros.sim_bridge_node import SimBridge

HEARING = ("controller", "sim_bridge", "residual")
"""In which the nodes hear a message: no command waits for a model."""
STARTING = ("residual", "controller", "sim_bridge")
"""In which they are configured and activated: who drives the arm comes last, and stops first."""


def compose(times: CycleTimes | None = None) -> list[ManagedNode]:
    """The nodes of one arm; a residual where the controller's parameter asks for one. times: where cycles are counted."""
    exchange = Exchange(HEARING, times)
    bridge, controller = SimBridge(exchange), Controller(exchange)
    exchange.outbox.problem = bridge.get_logger().error
    nodes: list[ManagedNode] = [controller, bridge]
    if controller.values["residual"] != "off":
        nodes.append(Residual(exchange))
    return sorted(nodes, key=lambda node: STARTING.index(node.get_name()))


def main() -> int:
    """Runs the nodes."""
    return run_nodes(compose)
