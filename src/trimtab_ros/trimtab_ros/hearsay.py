"""What controller and residual of one robot tell of themselves on /diagnostics: kept for who has to wait for it."""

from diagnostic_msgs.msg import DiagnosticArray

NODES = ("controller", "residual")


class Hearsay:
    """The newest report of each node, and how many there were."""

    def __init__(self, namespace: str) -> None:
        """namespace: of the robot whose nodes are listened to."""
        self._namespace = namespace.strip("/")
        self._values: dict[str, dict[str, str]] = {}
        self._counts = dict.fromkeys(NODES, 0)

    def take(self, message: DiagnosticArray) -> bool:
        """Keeps what a message says of these nodes; tells whether it says anything."""
        heard = False
        for status in message.status:
            place, _, name = status.name.removesuffix(": loop").rpartition("/")
            if place == self._namespace and name in NODES:
                self._values[name] = {pair.key: pair.value for pair in status.values}
                self._counts[name] += 1
                heard = True
        return heard

    def reports(self, node: str) -> int:
        """How often a node has told."""
        return self._counts[node]

    def value(self, node: str, key: str) -> str:
        """What a node told last; empty before it did."""
        return self._values.get(node, {}).get(key, "")

    def number(self, node: str, key: str) -> int:
        """The same as a number; 0 before it was told."""
        return int(self.value(node, key) or 0)

    def references(self) -> tuple[int, int]:
        """References that the controller has taken and refused."""
        return self.number("controller", "references_accepted"), self.number("controller", "references_refused")

    def fault(self) -> str:
        """The controller's fault in brackets; empty for none."""
        fault = self.value("controller", "fault")
        return f" (controller: {fault})" if fault not in ("", "nominal") else ""
