"""The bring-up plan: plain data, refused when anything is unknown."""

import json

import pytest

from trimtab.errors import ConfigError
from trimtab.names import arm_names
from trimtab_ros.plan import arguments, fleet_arguments, fleet_plan, plan


def by_name(processes):
    return {process.name: process for process in processes}


def test_default_plan_is_an_arm_in_simulation():
    processes = by_name(plan({}))
    assert list(processes) == ["sim_bridge", "controller", "reference"]
    assert {process.parameters["arm"] for process in processes.values()} == {"ur5e"}
    assert not any(process.parameters["use_sim_time"] for process in processes.values())


@pytest.mark.parametrize("arm", arm_names())
def test_every_arm_has_a_plan(arm):
    assert all(process.parameters["arm"] == arm for process in plan({"arm": arm}))


def test_record_and_no_reference():
    processes = by_name(plan({"record": "true", "record_directory": "somewhere", "reference": "none"}))
    assert list(processes) == ["sim_bridge", "controller", "recorder"]
    assert processes["recorder"].parameters["directory"] == "somewhere"


def test_the_reference_waits_for_the_recorder():
    assert by_name(plan({"record": "true"}))["reference"].parameters["listeners"] == 2


def test_lockstep_has_a_simulated_clock_and_patient_watchdogs():
    processes = by_name(plan({"mode": "lockstep"}))
    assert all(process.parameters["use_sim_time"] for process in processes.values())
    assert processes["sim_bridge"].parameters["command_timeout"] == processes["controller"].parameters["state_timeout"] > 1.0


@pytest.mark.parametrize("name", [argument.name for argument in arguments() if argument.choices])
def test_an_unknown_value_is_an_error_that_names_the_choices(name):
    choices = next(argument.choices for argument in arguments() if argument.name == name)
    with pytest.raises(ConfigError, match=rf"{name}:=nonsense is not known; choose one of: {choices[0]}"):
        plan({name: "nonsense"})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"robot": "ur5e"}, "unknown argument 'robot'; known: arm, backend"),
        ({"seed": "one"}, "seed:=one is not a whole number"),
        ({"duration": "long"}, "duration:=long is not a number"),
        ({"controller": "magic"}, "unknown controller 'magic'"),
        ({"controller": "friction"}, "needs friction_file:=FILE"),
    ],
)
def test_bad_arguments(given, reason):
    with pytest.raises(ConfigError, match=reason.replace("?", r"\?")):
        plan(given)


def test_every_argument_is_described():
    for argument in (*arguments(), *fleet_arguments()):
        assert argument.description
        assert not argument.choices or argument.default in argument.choices


def test_fleet():
    processes = fleet_plan({"robots": "a:ur5e, b:wam", "record": "true", "record_directory": "bags"})
    assert {(p.namespace, p.name) for p in processes} == {
        (namespace, name) for namespace in "ab" for name in ("sim_bridge", "controller", "reference", "recorder")
    }
    assert {p.parameters["arm"] for p in processes if p.namespace == "b" and "arm" in p.parameters} == {"wam"}
    assert {p.parameters["directory"] for p in processes if p.name == "recorder"} == {"bags/a", "bags/b"}


@pytest.mark.parametrize(
    ("robots", "reason"),
    [("ur5e", "is not a namespace:arm pair"), ("a:ur5e,a:wam", "given twice"), ("a:ur99", "arm:=ur99 is not known")],
)
def test_bad_fleets(robots, reason):
    with pytest.raises(ConfigError, match=reason):
        fleet_plan({"robots": robots})


def test_parameter_file_quotes_texts(tmp_path):
    """ROS's parser takes a bare `infinity` for a number."""
    process = by_name(plan({"reference": "infinity"}))["reference"]
    text = process.write_parameters(tmp_path).read_text()
    assert '"infinity"' in text
    assert json.loads(text)["/**"]["ros__parameters"] == process.parameters
