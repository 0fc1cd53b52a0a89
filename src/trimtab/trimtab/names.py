"""Every name that a user may give, without the libraries behind them: a launcher must be able to check names cheaply."""

from trimtab.errors import ConfigError
from trimtab.share import names_in

LAWS = ("pd", "computed_torque", "adaptive")
COMPENSATORS = ("friction", "integral", "observer")
CONTROLLERS = (*LAWS, *COMPENSATORS)
"""Every word that a controller text may contain; a text without a law gets computed torque."""
COMPOSED, PROCESSES = "composed", "processes"
DELIVERIES = (COMPOSED, PROCESSES)
"""How messages get from node to node of one arm: by direct call in one process, or over DDS between several."""
MCAP, SQLITE3 = "mcap", "sqlite3"
STORAGES = (MCAP, SQLITE3)
"""What a bag's data file may be, as rosbag2 calls it."""
REFERENCES = ("plum", "infinity", "reach", "sweep", "chirp")


def arm_names() -> list[str]:
    """Names of the arms in `config/arms`."""
    return names_in("config/arms")


def plant_names() -> list[str]:
    """Names of the plants in `config/plants`."""
    return names_in("config/plants")


def parse_controller(text: str) -> tuple[str, tuple[str, ...]]:
    """`friction+observer` -> (`computed_torque`, (`friction`, `observer`)); refuses unknown and repeated words."""
    words = [word.strip() for word in text.split("+")]
    for word in words:
        if word not in CONTROLLERS:
            raise ConfigError(f"unknown controller '{word}'; known: {', '.join(CONTROLLERS)}, joined by '+'")
        if words.count(word) > 1:
            raise ConfigError(f"controller '{text}' names '{word}' twice")
    laws = [word for word in words if word in LAWS]
    if len(laws) > 1:
        raise ConfigError(f"controller '{text}' has two laws ({laws[0]}, {laws[1]}); take one of {', '.join(LAWS)}")
    return (laws[0] if laws else "computed_torque"), tuple(word for word in COMPENSATORS if word in words)


def needs_friction(text: str) -> bool:
    """Whether this controller needs an identified friction model."""
    return "friction" in parse_controller(text)[1]
