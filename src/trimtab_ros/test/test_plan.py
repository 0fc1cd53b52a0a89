"""The bring-up plan: plain data, refused when anything is unknown."""

import json

import pytest

from trimtab.errors import ConfigError
from trimtab.names import arm_names
from trimtab_ros.plan import arguments, check_bags, fleet_arguments, fleet_plan, plan, replay_arguments, replay_plan


def by_name(processes):
    return {process.name: process for process in processes}


def in_processes(**given):
    return by_name(plan({"delivery": "processes", **given}))


def test_default_plan_is_one_process_for_the_arm_and_one_for_the_reference():
    processes = by_name(plan({"residual": "on"}))
    assert list(processes) == ["arm", "reference"]
    alone = in_processes(residual="on")
    assert list(alone) == ["sim_bridge", "controller", "residual", "reference"]
    # The same nodes with the same parameters, however they are delivered to.
    assert {node.name: node.parameters for node in processes["arm"].nodes} == {
        name: process.parameters for name, process in alone.items() if name != "reference"
    }


def test_a_composed_process_has_a_table_of_parameters_per_node(tmp_path):
    process = by_name(plan({"namespace": "left", "arm": "wam"}))["arm"]
    tables = json.loads(process.write_parameters(tmp_path).read_text())
    assert set(tables) == {"/**/sim_bridge", "/**/controller"}
    assert tables["/**/controller"]["ros__parameters"]["arm"] == "wam"


def test_an_arm_in_simulation():
    processes = in_processes()
    assert list(processes) == ["sim_bridge", "controller", "reference"]
    assert {process.parameters["arm"] for process in processes.values()} == {"ur5e"}
    assert not any(process.parameters["use_sim_time"] for process in processes.values())


@pytest.mark.parametrize("arm", arm_names())
def test_every_arm_has_a_plan(arm):
    assert all(process.parameters["arm"] == arm for process in in_processes(arm=arm).values())


def test_record_and_no_reference():
    processes = by_name(plan({"record": "true", "record_directory": "somewhere", "reference": "none"}))
    assert list(processes) == ["arm", "recorder"]
    assert processes["recorder"].parameters["directory"] == "somewhere"


def test_the_recorder_knows_what_the_bag_is_to_tell():
    given = {"arm": "wam", "plant": "worn", "controller": "pd", "residual": "shadow", "model": "mlp/1", "seed": "3"}
    labels = "payload=1kg,tool=gripper"
    told = {"record_storage": "sqlite3", "labels": labels, "publish_every": "5"}
    recorder = by_name(plan({**given, "record": "true", **told}))["recorder"]
    assert recorder.parameters.items() >= {**given, "storage": "sqlite3", "labels": labels, "driver": "sim"}.items()
    assert recorder.parameters["publish_every"] == 5
    assert (recorder.parameters["reference"], recorder.parameters["delivery"]) == ("plum", "composed")
    assert not recorder.essential  # a robot does not stop because a disk is full


def test_a_recorder_does_not_name_a_model_that_nobody_runs():
    recorder = by_name(plan({"record": "true", "delivery": "processes", "publish_every": "5"}))["recorder"]
    assert recorder.parameters["model"] == ""
    assert recorder.parameters["publish_every"] == 1  # only a composed process leaves states out


def test_a_bag_that_exists_is_refused_before_anything_starts(tmp_path):
    assert check_bags(plan({"record": "true", "record_directory": str(tmp_path / "new")}))
    with pytest.raises(ConfigError, match="no bag is written over"):
        check_bags(plan({"record": "true", "record_directory": str(tmp_path)}))


def test_the_reference_waits_for_the_recorder():
    assert by_name(plan({"record": "true"}))["reference"].parameters["listeners"] == 2


def test_lockstep_has_a_simulated_clock_and_patient_watchdogs():
    processes = in_processes(mode="lockstep")
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
        ({"labels": "paylod=1kg"}, "unknown label 'paylod'"),
        ({"record_storage": "rosbag1"}, "record_storage:=rosbag1 is not known"),
        ({"robot": "ur5e"}, "unknown argument 'robot'; known: arm, backend"),
        ({"publish_every": "0"}, "publish_every:=0 is not a whole number of 1 or more"),
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
    for argument in (*arguments(), *fleet_arguments(), *replay_arguments()):
        assert argument.description
        assert not argument.choices or argument.default in argument.choices


def test_fleet():
    processes = fleet_plan({"robots": "a:ur5e, b:wam", "record": "true", "record_directory": "bags"})
    assert {(p.namespace, p.name) for p in processes} == {
        (namespace, name) for namespace in "ab" for name in ("arm", "reference", "recorder")
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


def test_a_replay_is_the_arm_with_the_player_in_the_driver_s_place():
    """Controller and residual get what they get on the robot, but for who sets the time."""
    given = {"arm": "wam", "controller": "pd", "residual": "on", "namespace": "n"}
    replay = by_name(replay_plan({"bag": "b", "pace": "2", **given}))
    live = in_processes(**given, use_sim_time="true")
    assert list(replay) == ["controller", "residual", "replayer"]
    assert replay["residual"].parameters == live["residual"].parameters
    assert replay["controller"].parameters.pop("patience") > 1.0
    assert replay["controller"].parameters == live["controller"].parameters
    player = replay["replayer"]
    assert player.last
    assert player.namespace == "n"
    assert {key: player.parameters[key] for key in ("bag", "pace", "listeners")} == {"bag": "b", "pace": 2.0, "listeners": 2}
    assert player.parameters["answers"] == "torque_command+residual_torque"


def test_a_replay_without_a_pace_waits_for_answers():
    replay = by_name(replay_plan({"bag": "b", "residual": "on", "pace": "0"}))
    assert replay["controller"].parameters["await_residual"]
    assert replay["residual"].parameters["await_command"]
    assert by_name(replay_plan({"bag": "b"}))["replayer"].parameters["answers"] == "torque_command"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "bag:=FOLDER is missing"),
        ({"bag": "b", "pace": "-1"}, "pace:=-1 is not a number"),
        ({"bag": "b", "plant": "worn"}, "unknown argument 'plant'; known: bag, arm"),
        ({"bag": "b", "controller": "friction"}, "needs friction_file:=FILE"),
    ],
)
def test_bad_replays(given, reason):
    with pytest.raises(ConfigError, match=reason):
        replay_plan(given)
