"""Entry point of every node: `python -m trimtab_ros.node sim_bridge --ros-args ...`."""

import importlib
import sys

from trimtab_ros.stopping import STOP


def main(name: str) -> int:
    """Runs a node by its name; a signal is heard from here on, also while the libraries are still being imported."""
    STOP.listen()
    module = importlib.import_module(f"trimtab_ros.{name}_node")
    return int(module.main())


if __name__ == "__main__":
    sys.exit(main(sys.argv.pop(1)))
