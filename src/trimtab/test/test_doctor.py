"""The doctor: each check says ok here where it should, and names what to do where something lacks."""

import json
import os
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from trimtab.cli import check, check_machine, check_python, check_ros, doctor
from trimtab.cli.check import Answer, Check, State
from trimtab.cli.main import main


def answering(monkeypatch: pytest.MonkeyPatch, module: ModuleType, ok: bool, text: str) -> list[dict[str, str]]:
    """Makes a module's probes answer without a process; gives the environments they were asked with."""
    asked: list[dict[str, str]] = []

    def ask(code: str, environment: Mapping[str, str] | None = None, timeout: float = 0.0) -> Answer:
        asked.append(dict(environment or {}))
        return Answer(ok, text)

    monkeypatch.setattr(module, "ask", ask)
    return asked


def test_python_and_packages_are_ok_here() -> None:
    """All that requirements.txt names."""
    lines = (Path(__file__).resolve().parents[3] / "requirements.txt").read_text().lower().splitlines()
    needed = {line for line in lines if line and not line.startswith("#")} - {"setuptools"}
    checks = [check_python.check_python(), *(check_python.check_package(name) for name in check_python.PACKAGES)]
    assert [found.state for found in checks] == [State.OK] * (1 + len(check_python.PACKAGES))
    assert all(found.needed and not found.blocks for found in checks)
    assert {check_python.PACKAGES[found.name].lower() for found in checks[1:]} == needed


def test_an_old_python_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_python, "OLDEST_PYTHON", (99, 0))
    found = check_python.check_python()
    assert found.blocks
    assert "Python 99.0 or newer" in found.remedy


@pytest.mark.parametrize("name", check_python.PACKAGES)
def test_a_package_that_is_not_there_is_missing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def version(distribution: str) -> str:
        raise PackageNotFoundError(distribution)

    monkeypatch.setattr(check_python, "version", version)
    monkeypatch.setattr(check_python, "find_spec", lambda _: None)
    found = check_python.check_package(name)
    assert found.blocks
    assert found.line().startswith("missing ")
    assert f"pip install {check_python.PACKAGES[name]}" in found.line()


def test_a_package_without_package_data_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(check_python.PACKAGES, "json", "no-such-distribution")
    assert check_python.check_package("json").state is State.OK


def test_a_process_is_asked_and_its_complaint_heard() -> None:
    assert check.ask("print(6 * 7)") == Answer(True, "42")
    assert check.ask("import os; print(os.environ['A'])", {"A": "b"}).text == "b"
    assert check.ask("import no_such_module") == Answer(False, "ModuleNotFoundError: No module named 'no_such_module'")
    assert check.ask("raise SystemExit(3)") == Answer(False, "exit code 3")


def test_nothing_is_imported_from_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A workspace has a folder `launch`; seen from there it is no package that is in the way of ROS's."""
    (tmp_path / "launch").mkdir()
    (tmp_path / "no_such_module.py").touch()
    monkeypatch.chdir(tmp_path)
    assert check.ask("import no_such_module") == Answer(False, "ModuleNotFoundError: No module named 'no_such_module'")
    assert "another package" not in check_ros.check_launch().found


def test_a_process_that_hangs_is_ended() -> None:
    assert check.ask("import threading; threading.Event().wait()", timeout=0.5) == Answer(False, "no answer within 0.5 s")


def test_ros_from_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    ros = {"wheel": "ros-jazzy-rclpy", "distro": "jazzy", "path": "/venv/rclpy", "rmw": "rmw_fastrtps_cpp"}
    answering(monkeypatch, check_ros, True, json.dumps(ros))
    found = check_ros.check_ros()
    assert found.state is State.OK
    assert found.found == "jazzy from wheels (ros-jazzy-rclpy), rmw rmw_fastrtps_cpp"


def test_ros_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    ros = {"wheel": "", "distro": "jazzy", "path": "/opt/ros/jazzy/lib/rclpy", "rmw": "rmw_cyclonedds_cpp"}
    answering(monkeypatch, check_ros, True, json.dumps(ros))
    assert check_ros.check_ros().found == "jazzy of the system (/opt/ros/jazzy/lib/rclpy), rmw rmw_cyclonedds_cpp"


def test_no_ros_is_missing_and_does_not_block_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, check_ros, False, "ModuleNotFoundError: No module named 'rclpy'")
    monkeypatch.delenv("ROS_DISTRO", raising=False)
    for found in (check_ros.check_ros(), check_ros.check_round_trip()):
        assert found.state is State.MISSING
        assert not found.blocks
        assert "requirements-ros-wheels.txt" in found.remedy


def test_ros_of_another_python_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, check_ros, False, "ModuleNotFoundError: No module named 'rclpy'")
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    assert "although ROS_DISTRO is jazzy" in check_ros.check_ros().found


def test_the_round_trip_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, check_ros, True, "0.4")
    assert check_ros.check_round_trip().found == "one message between two nodes in 0.4 ms"
    assert asked == [{"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_DOMAIN_ID": "97"}]


def test_a_silent_round_trip_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, check_ros, False, "nothing heard within 10 s")
    found = check_ros.check_round_trip()
    assert found.state is State.MISSING
    assert "/dev/shm" in found.remedy


@pytest.mark.skipif(find_spec("rclpy") is None, reason="no ROS on this machine")
def test_ros_works_here() -> None:
    assert check_ros.check_ros().state is State.OK
    assert check_ros.check_round_trip().state is State.OK


def test_launch_and_control_msgs(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, check_ros, True, "/opt/ros/jazzy/lib")
    assert check_ros.check_launch().state is check_ros.check_control_msgs().state is State.OK
    answering(monkeypatch, check_ros, False, "ModuleNotFoundError: No module named 'launch'")
    assert "trimtab up" in check_ros.check_launch().remedy
    assert check_ros.check_control_msgs().state is State.WARN


def test_the_other_launch_package_is_unmasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "launch.py").write_text("'''not the launch of ROS'''\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    found = check_ros.check_launch()
    assert found.state is State.WARN
    assert "another package named launch" in found.found
    assert "pip uninstall launch" in found.remedy


def test_rendering_tries_both_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, check_machine, False, "no libEGL")
    found = check_machine.check_rendering()
    assert [environment["MUJOCO_GL"] for environment in asked] == ["egl", "osmesa"]
    assert found.state is State.WARN
    assert "apt-get install libegl1" in found.remedy
    answering(monkeypatch, check_machine, True, "")
    assert check_machine.check_rendering().found == "off screen with egl"


def test_serial_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check_machine, "DEVICES", tmp_path)
    assert check_machine.check_serial().state is State.WARN
    (tmp_path / "ttyUSB0").touch()
    assert check_machine.check_serial().found == "ttyUSB0"
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = check_machine.check_serial()
    assert found.state is State.WARN
    assert "dialout $USER" in found.remedy


def test_can_interfaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check_machine, "NETWORK", tmp_path)
    assert check_machine.check_can().state is State.WARN
    (tmp_path / "can0").mkdir()
    (tmp_path / "can0" / "operstate").write_text("up\n")
    assert check_machine.check_can().line() == "ok       can: can0 (up)"
    (tmp_path / "vcan0").mkdir()
    (tmp_path / "vcan0" / "operstate").write_text("unknown\n")
    assert check_machine.check_can().line() == "ok       can: can0 (up), vcan0 (unknown)"
    (tmp_path / "can0" / "operstate").write_text("down\n")
    found = check_machine.check_can()
    assert found.state is State.WARN
    assert found.found == "can0 (down), vcan0 (unknown)"
    assert found.remedy == "for a WAM: sudo ip link set can0 up type can bitrate 1000000"


def test_scheduler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flag = tmp_path / "realtime"
    monkeypatch.setattr(check_machine, "REALTIME_FLAG", flag)
    answering(monkeypatch, check_machine, False, "PermissionError")
    assert "rtprio" in check_machine.check_scheduler().remedy
    answering(monkeypatch, check_machine, True, "")
    assert "boot a PREEMPT_RT kernel" in check_machine.check_scheduler().remedy
    flag.write_text("1\n")
    assert check_machine.check_scheduler().state is State.OK


@pytest.mark.parametrize(("limit", "state"), [("unlimited", State.OK), (str(2**30), State.OK), ("65536", State.WARN)])
def test_memory_lock(monkeypatch: pytest.MonkeyPatch, limit: str, state: State) -> None:
    monkeypatch.setattr(check_machine, "_limit", lambda _: limit)
    assert check_machine.check_memory_lock().state is state


def test_the_list_as_text_and_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    checks = (lambda: Check("numpy", State.OK, "2", needed=True), lambda: Check("can", State.WARN, "none", "plug it in"))
    monkeypatch.setattr(doctor, "CHECKS", checks)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["ok       numpy: 2", "warn     can: none -> plug it in"]
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["simulation"] is True
    assert document["checks"][1] == {
        "name": "can",
        "state": "warn",
        "found": "none",
        "remedy": "plug it in",
        "needed": False,
    }


def test_what_simulation_needs_decides_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (lambda: Check("mujoco", State.MISSING, "no", "pip install mujoco", needed=True),))
    assert main(["doctor"]) == 1
    assert "cannot work without: mujoco" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "CHECKS", (lambda: Check("ros 2", State.MISSING, "no", "install it"),))
    assert main(["doctor"]) == 0
