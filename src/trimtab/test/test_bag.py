"""Bags: what is written comes back bit for bit, by joint name, and what cannot be used is refused with a reason."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from trimtab import bag
from trimtab.arm import Arm, load_arm
from trimtab.bag import read_log, write_log
from trimtab.dynamics import RigidBody
from trimtab.errors import LogError
from trimtab.plant import load_gap
from trimtab.reference import make_reference
from trimtab.runlog import RunLog
from trimtab.simulate import simulate

STORE = get_typestore(Stores.ROS2_JAZZY)
Message = tuple[str, int, Any]
"""Topic, stamp [ns] and message."""


@pytest.fixture(scope="module")
def arm() -> Arm:
    return load_arm("ur5e")


@pytest.fixture(scope="module")
def log(arm: Arm) -> RunLog:
    return simulate(arm, load_gap("worn", arm), "pd", make_reference("reach", RigidBody(arm), 4.0), reference="reach")


@pytest.fixture
def written(tmp_path: Path, log: RunLog) -> Path:
    return write_log(tmp_path / "bag", log)


def state(stamp: int, names: Sequence[str], position: Any = (), velocity: Any = (), effort: Any = ()) -> Any:
    kinds: Any = STORE.types
    header = kinds["std_msgs/msg/Header"](kinds["builtin_interfaces/msg/Time"](*divmod(stamp, 10**9)), "")
    arrays = (np.array(values, dtype=np.float64) for values in (position, velocity, effort))
    return kinds[bag.JOINT_STATE](header, list(names), *arrays)


def write_messages(folder: Path, messages: Iterable[Message], topics: Sequence[str] = (bag.STATES, bag.TORQUES)) -> Path:
    """A bag of (topic, stamp, JointState), as somebody else might have recorded it."""
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connections = {topic: writer.add_connection(topic, bag.JOINT_STATE, typestore=STORE) for topic in topics}
        for topic, stamp, message in messages:
            writer.write(connections[topic], stamp, STORE.serialize_cdr(message, bag.JOINT_STATE))
    return folder


def pair(arm: Arm, stamp: int, value: float = 0.1) -> Iterator[Message]:
    row = np.full(arm.dof, value)
    yield bag.STATES, stamp, state(stamp, arm.joints, row, row)
    yield bag.TORQUES, stamp, state(stamp, arm.joints, effort=row)


def test_a_run_comes_back_bit_for_bit(written: Path, arm: Arm, log: RunLog) -> None:
    read = read_log(written, arm)
    np.testing.assert_array_equal(read.q, log.q)
    np.testing.assert_array_equal(read.qd, log.qd)
    np.testing.assert_array_equal(read.torque, log.torque)
    np.testing.assert_allclose(read.t, log.t, atol=1e-9)
    assert read.dropped == 0


def test_the_bare_file_can_be_read_too(written: Path, arm: Arm, log: RunLog) -> None:
    np.testing.assert_array_equal(read_log(written / "bag.mcap", arm).torque, log.torque)


def test_it_looks_like_a_bag_of_ros2(written: Path, log: RunLog) -> None:
    assert sorted(file.name for file in written.iterdir()) == ["bag.mcap", "metadata.yaml"]
    information = yaml.safe_load((written / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    counts = {row["topic_metadata"]["name"]: row["message_count"] for row in information["topics_with_message_count"]}
    assert counts == {"/joint_states": len(log.t), "/torque_command": len(log.t), "/reference": 1}
    assert information["storage_identifier"] == "mcap"
    assert information["starting_time"]["nanoseconds_since_epoch"] > 0
    assert information["custom_data"]["controller"] == "pd"


def test_the_reference_is_one_message_with_all_knots(written: Path, log: RunLog) -> None:
    with Reader(written) as reader:
        connections = [connection for connection in reader.connections if connection.topic == bag.REFERENCE]
        ((_, stamp, data),) = reader.messages(connections)
        message: Any = STORE.deserialize_cdr(data, bag.JOINT_TRAJECTORY)
    assert stamp == bag.START == message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
    assert tuple(message.joint_names) == log.joints
    assert message.header.frame_id == ""
    for key, expected in (("positions", "q"), ("velocities", "qd"), ("accelerations", "qdd")):
        knots = np.array([getattr(point, key) for point in message.points])
        np.testing.assert_array_equal(knots, getattr(log.trajectory, expected))
    times = [point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in message.points]
    np.testing.assert_allclose(times, log.trajectory.t, atol=1e-9)


def test_permuted_and_foreign_joints_give_the_same_arrays(tmp_path: Path, written: Path, arm: Arm, log: RunLog) -> None:
    order = np.random.default_rng(1).permutation(arm.dof)
    names = [arm.joints[i] for i in order]

    def messages() -> Iterator[Message]:
        for i in range(50):
            stamp = bag.START + round(log.t[i] * 1e9)
            # A gripper shares the state topic; the torque topic has yet another order.
            yield bag.STATES, stamp, state(stamp, [*names, "gripper"], [*log.q[i, order], 9.0], [*log.qd[i, order], 9.0])
            yield bag.TORQUES, stamp, state(stamp, arm.joints[::-1], effort=log.torque[i, ::-1])

    permuted = read_log(write_messages(tmp_path / "permuted", messages()), arm)
    plain = read_log(written, arm)
    for key in ("t", "q", "qd", "torque"):
        np.testing.assert_array_equal(getattr(permuted, key), getattr(plain, key)[:50])


def test_rows_without_a_partner_are_left_out_and_counted(tmp_path: Path, arm: Arm, log: RunLog) -> None:
    silent = log.torque.copy()
    silent[3:5] = np.nan
    read = read_log(write_log(tmp_path / "silent", replace(log, torque=silent)), arm)
    assert read.dropped == 2
    assert len(read.t) == len(log.t) - 2
    np.testing.assert_array_equal(read.q, np.delete(log.q, [3, 4], axis=0))


def test_effort_may_come_with_the_states(tmp_path: Path, arm: Arm) -> None:
    row = np.arange(arm.dof)
    message = state(5, arm.joints, row, row, row)
    read = read_log(
        write_messages(tmp_path / "b", [("/robot", 5, message)], topics=("/robot",)), arm, states="/robot", torques="/robot"
    )
    np.testing.assert_array_equal(read.torque, [row])


def test_an_existing_folder_is_never_overwritten(written: Path, arm: Arm, log: RunLog) -> None:
    with pytest.raises(LogError, match="never overwritten"):
        write_log(written, log)
    read_log(written, arm)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, log: RunLog, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(bag, "_trajectory", fail)
    with pytest.raises(failure):
        write_log(tmp_path / "bag", log)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.00001, 0.0001, 0.01, 0.5, 0.9, 0.9999])
@pytest.mark.parametrize("bare", [False, True])
def test_a_cut_off_file_is_refused_with_what_to_do(written: Path, arm: Arm, share: float, bare: bool) -> None:
    file = written / "bag.mcap"
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(LogError, match=r"bag.*cut off.*trimtab bag repair"):
        read_log(file if bare else written, arm)


def test_random_damage_never_escapes_as_another_error(written: Path, arm: Arm) -> None:
    file = written / "bag.mcap"
    content = file.read_bytes()
    random = np.random.default_rng(2)
    for _ in range(20):
        damaged = bytearray(content)
        for place in random.integers(0, len(content), 3):
            damaged[place] ^= int(random.integers(1, 256))
        # The index at the end is where a flipped byte hurts most.
        damaged[-int(random.integers(1, 900))] ^= 0x5A
        file.write_bytes(damaged)
        try:
            read_log(written, arm)
        except LogError as error:
            assert str(written) in str(error)  # noqa: PT017


def test_a_bag_without_metadata_was_cut_off(written: Path, arm: Arm) -> None:
    (written / "metadata.yaml").unlink()
    with pytest.raises(LogError, match=r"metadata\.yaml is missing; .*trimtab bag repair"):
        read_log(written, arm)


def test_a_bag_that_promises_more_than_it_holds_is_refused(written: Path, arm: Arm) -> None:
    metadata = written / "metadata.yaml"
    document = yaml.safe_load(metadata.read_text())
    for row in document["rosbag2_bagfile_information"]["topics_with_message_count"]:
        row["message_count"] += 10
    metadata.write_text(yaml.safe_dump(document))
    with pytest.raises(LogError, match="messages, so it was cut off"):
        read_log(written, arm)


def test_a_missing_bag_is_refused(tmp_path: Path, arm: Arm) -> None:
    with pytest.raises(LogError, match="does not exist"):
        read_log(tmp_path / "nothing", arm)


def test_a_missing_topic_is_refused_with_the_known_ones(written: Path, arm: Arm) -> None:
    with pytest.raises(
        LogError, match=r"no topic /robot/joint_states \(it has: /joint_states, /reference, /torque_command\)"
    ):
        read_log(written, arm, states="/robot/joint_states")


def test_a_topic_of_another_type_is_refused(written: Path, arm: Arm) -> None:
    with pytest.raises(LogError, match=r"/reference is trajectory_msgs/msg/JointTrajectory, it must be"):
        read_log(written, arm, torques="/reference")


def test_another_arm_is_refused_by_joint_name(written: Path) -> None:
    with pytest.raises(LogError, match=r"joint 'base_yaw' is missing .* is it the right topic, of the arm 'wam'\?"):
        read_log(written, load_arm("wam"))


def test_an_empty_topic_is_refused(tmp_path: Path, arm: Arm) -> None:
    folder = write_messages(tmp_path / "empty", list(pair(arm, 5))[:1])
    with pytest.raises(LogError, match="/torque_command has no messages"):
        read_log(folder, arm)


def test_stamps_that_never_meet_are_refused(tmp_path: Path, arm: Arm) -> None:
    folder = write_messages(tmp_path / "apart", [next(pair(arm, 5)), list(pair(arm, 6))[1]])
    with pytest.raises(LogError, match="must bear the stamp of the state it answers"):
        read_log(folder, arm)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, arm: Arm, bad: float) -> None:
    folder = write_messages(tmp_path / "bad", [*pair(arm, 5), *pair(arm, 2 * 10**9, bad)])
    with pytest.raises(LogError, match=r"/joint_states: position of joint 'shoulder_pan_joint' is (nan|inf) at 2\.000000 s"):
        read_log(folder, arm)


def test_states_without_velocity_are_refused(tmp_path: Path, arm: Arm) -> None:
    message = state(5, arm.joints, np.zeros(arm.dof))
    folder = write_messages(tmp_path / "b", [(bag.STATES, 5, message), *list(pair(arm, 5))[1:]])
    with pytest.raises(LogError, match="velocity has 0 values for 6 joints"):
        read_log(folder, arm)
