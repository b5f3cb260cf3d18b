"""Stopped and gone on with: the same result, bit for bit, and never the wrong run's."""

import json
import os
import signal
import threading
import warnings

import numpy as np
import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from dcfsc import DCFSC, processes
from dcfsc.errors import InputError
from dcfsc.networks import ConvSpec
from dcfsc.training import Checkpoint, History
from dcfsc.training import checkpoint as module
from dcfsc.training.checkpoint import State, fingerprint


class Stop(Exception):
    pass


def stop_at(phase, step, error=Stop):
    def callback(row):
        if (row["phase"], row["step"]) == (phase, step):
            raise error

    return callback


@pytest.fixture(autouse=True)
def several_mini_batches(monkeypatch):
    monkeypatch.setattr("dcfsc.estimators.deep.PRETRAIN_BATCH", 16)


def samples():
    return np.random.default_rng(0).normal(size=(40, 8, 8)).astype(np.float32)


def estimator(path=None, callbacks=(), **options):
    spec = ConvSpec((1, 8, 8), (3, 2), (3, 3), (2, 2), batch_norm=True)
    given = {"network": spec, "pretrain_epochs": 4, "steps": 6}
    given |= {
        "random_state": 3,
        "verbose": False,
        "device": "cpu",
        **({} if path is None else {"checkpoint_every": 0}),
        **options,
    }
    return DCFSC(3, checkpoint=path, callbacks=callbacks, **given)


@pytest.mark.parametrize("batch_size", [None, 13])
@pytest.mark.parametrize("where", [("pretrain", 1), ("pretrain", 4), ("train", 1), ("train", 5)])
def test_going_on_gives_the_undisturbed_result(tmp_path, where, batch_size):
    X, file = samples(), tmp_path / "checkpoint.safetensors"
    whole = estimator(batch_size=batch_size).fit(X)
    with pytest.raises(Stop):
        estimator(file, [stop_at(*where)], batch_size=batch_size).fit(X)
    assert file.exists() or where == ("pretrain", 1)
    resumed = estimator(file, batch_size=batch_size).fit(X)
    np.testing.assert_array_equal(resumed.latents_, whole.latents_)
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    assert resumed.lam_ == whole.lam_
    assert [r["loss"] for r in resumed.history_] == [r["loss"] for r in whole.history_]


def test_another_run_is_refused(tmp_path):
    X, file = samples(), tmp_path / "checkpoint.safetensors"
    with pytest.raises(Stop):
        estimator(file, [stop_at("train", 2)]).fit(X)
    with pytest.raises(InputError, match="other data or parameters"):
        estimator(file, steps=7).fit(X)
    with pytest.raises(InputError, match="other data or parameters"):
        estimator(file).fit(X + 1)


@pytest.mark.parametrize("content", [b"", b"not safetensors", b"\x10\0\0\0\0\0\0\0{}"])
def test_a_damaged_file_is_said_in_one_line(tmp_path, content):
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(content)
    with pytest.raises(InputError, match="damaged") as error:
        estimator(file).fit(samples())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_step_and_saves(tmp_path, number):
    X, file = samples(), tmp_path / "checkpoint.safetensors"

    def press(row):
        if row["phase"] == "train" and row["step"] == 3:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        estimator(file, [press]).fit(X)
    assert signal.getsignal(number) == before
    resumed = estimator(file).fit(X)
    np.testing.assert_array_equal(resumed.labels_, estimator().fit(X).labels_)


def test_the_optimizer_continues_with_its_own_averages(tmp_path):
    """Without Adam's moments the next step would be another one."""
    X, file = samples(), tmp_path / "checkpoint.safetensors"
    with pytest.raises(Stop):
        estimator(file, [stop_at("train", 4)]).fit(X)
    saved = Checkpoint(file, identity_of(X, file))
    names = saved._tensors
    assert any(name.startswith("optimizer.0.exp_avg") for name in names)
    assert all(torch.isfinite(v.double()).all() for v in names.values())


def identity_of(X, file):
    from dcfsc.estimators.deep import identity

    return identity(estimator(file), X)


def saved(file, every=0.0, step=4):
    """A file after a step of a small network, and what is in it."""
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    network(torch.ones(5, 3)).square().sum().backward()
    optimizer.step()
    history = History([{"phase": "train", "step": step, "loss": 0.25}])
    checkpoint = Checkpoint(file, "a run", every=every)
    checkpoint.notes = {"share": 0.125}
    generator = torch.Generator().manual_seed(9)
    torch.rand(3, generator=generator)
    checkpoint.after_step("train", step, State(network, optimizer, history, generator))
    return network, optimizer, history, generator


def test_everything_is_put_back_into_fresh_objects(tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    network, optimizer, history, generator = saved(file)
    read = Checkpoint(file, "a run")
    assert read.resumed
    assert read.notes == {"share": 0.125}
    assert read.noted("share") == 0.125
    with pytest.raises(InputError, match="damaged"):
        read.noted("another")
    assert read.finished("pretrain")
    assert not read.finished("train")
    other = torch.nn.Linear(3, 2)
    others = torch.optim.Adam(other.parameters(), lr=0.1)
    fresh, rows = torch.Generator(), History()
    assert read.resume("pretrain", State(other, others, rows)) == 0
    assert rows == []
    assert read.resume("train", State(other, others, rows, fresh)) == 4
    assert rows == history
    assert torch.equal(fresh.get_state(), generator.get_state())
    for a, b in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        for key in ("step", "exp_avg", "exp_avg_sq"):
            assert torch.equal(optimizer.state[a][key], others.state[b][key])
    assert not Checkpoint(tmp_path / "none", "a run").resumed


def test_a_restart_does_not_begin_anew(tmp_path):
    X, file, steps = samples(), tmp_path / "checkpoint.safetensors", []
    with pytest.raises(Stop):
        estimator(file, [stop_at("train", 5)]).fit(X)
    estimator(file, [lambda row: steps.append((row["phase"], row["step"]))]).fit(X)
    assert steps == [("train", 5), ("train", 6)]


def test_it_is_written_no_more_often_than_asked(tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    saved(file, every=1e6)
    assert not file.exists()
    saved(file, every=0.0)
    assert file.exists()


def test_one_flipped_bit_is_noticed(tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    saved(file)
    content = bytearray(file.read_bytes())
    content[-3] ^= 1  # among the numbers, not the header
    file.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        Checkpoint(file, "a run")


def test_the_format_of_files_that_people_have_is_one(tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    saved(file)
    assert b'\\"format\\": 1' in file.read_bytes()


def test_what_cannot_be_written_is_said_in_one_line(tmp_path):
    (tmp_path / "a file").write_text("")
    said = "cannot write the checkpoint .*: File exists; there is none yet. Training continues"
    with pytest.warns(RuntimeWarning, match=said) as told:
        saved(tmp_path / "a file" / "checkpoint.safetensors")
    assert len(told) == 1
    assert "\n" not in str(told[0].message)


def test_a_second_interrupt_does_not_wait(tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint.safetensors", "a run")
    reached = []

    def press_twice():
        with checkpoint.deferring_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(1)
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(2)

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert reached == [1]


@pytest.mark.parametrize("name", ["identity", "notes", "step", "history", "phase"])
def test_a_file_that_lacks_something_is_damaged(tmp_path, name):
    file = tmp_path / "checkpoint.safetensors"
    saved(file)
    tensors = load_file(file)
    with safe_open(file, "pt") as opened:
        values = json.loads(opened.metadata()["dcfsc"])
    del values["sha256"], values[name]
    values["sha256"] = fingerprint(values, tensors)
    save_file(tensors, file, metadata={"dcfsc": json.dumps(values)})
    with pytest.raises(InputError, match="damaged"):
        Checkpoint(file, "a run")


def small():
    network = torch.nn.Linear(2, 2)
    return network, torch.optim.Adam(network.parameters()), History()


def test_a_failure_is_said_once_until_writing_works_again(tmp_path, monkeypatch):
    checkpoint, state = Checkpoint(tmp_path / "file", "a run", every=0), small()
    writes, original = [], module.save_file

    def save(tensors, path, metadata):
        writes.append(path)
        if len(writes) in (2, 3, 5):
            raise OSError(28, "No space left on device")
        original(tensors, path, metadata)

    monkeypatch.setattr(module, "save_file", save)
    said = []
    for step in range(1, 6):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            checkpoint.after_step("train", step, State(*state))
        said.append([str(w.message).partition("; ")[2] for w in caught])
    ending = "Training continues and tries again."
    expected = [[], [f"the one of step 1 stays. {ending}"], [], []]
    assert said == [*expected, [f"the one of step 4 stays. {ending}"]]
    assert Checkpoint(tmp_path / "file", "a run").resume("train", State(*state)) == 4


def test_after_a_restart_the_step_of_the_file_is_known(tmp_path, monkeypatch):
    file = tmp_path / "file"
    saved(file, step=4)
    read = Checkpoint(file, "a run", every=0)
    network = torch.nn.Linear(3, 2)
    optimizer, history = torch.optim.Adam(network.parameters()), History()
    assert read.resume("train", State(network, optimizer, history)) == 4

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "save_file", fail)
    with pytest.warns(RuntimeWarning, match="the one of step 4 stays"):
        read.after_step("train", 5, State(network, optimizer, history))


def test_thirty_seconds_pass_between_two_writings(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    checkpoint, state, steps = Checkpoint(tmp_path / "file", "a run"), small(), []
    for step, seconds in enumerate((129.9, 130.0, 159.9, 160.0, 161.0), 1):
        now[0] = seconds
        checkpoint.after_step("train", step, State(*state))
        if checkpoint.path.exists():
            steps.append(Checkpoint(checkpoint.path, "a run")._saved["step"])
    assert steps == [2, 2, 4, 4]


def test_the_network_of_another_shape_is_not_filled(tmp_path):
    saved(tmp_path / "file")
    with pytest.raises(InputError, match="damaged"):
        Checkpoint(tmp_path / "file", "a run").resume("train", State(*small()))


def test_a_generator_that_the_file_does_not_have(tmp_path):
    state, file = small(), tmp_path / "file"
    Checkpoint(file, "a run", every=0).after_step("pretrain", 3, State(*state))
    generator = torch.Generator().manual_seed(7)
    before = generator.get_state()
    read = Checkpoint(file, "a run")
    assert not read.finished("pretrain")
    assert not read.finished("train")
    assert read.resume("pretrain", State(*state, generator)) == 3
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("change", [{"format": 2}, {"phase": "other"}, {}])
def test_a_file_of_another_format_or_phase_is_refused(tmp_path, change):
    file = tmp_path / "file"
    saved(file)
    tensors = load_file(file)
    with safe_open(file, "pt") as opened:
        values = json.loads(opened.metadata()["dcfsc"]) | change
    del values["sha256"]
    values["sha256"] = fingerprint(values, tensors)
    save_file(tensors, file, metadata={"dcfsc": json.dumps(values)})
    if not change:
        assert Checkpoint(file, "a run").resumed
        return
    with pytest.raises(InputError, match="damaged"):
        Checkpoint(file, "a run")


def test_a_fingerprint_is_of_names_types_shapes_and_numbers():
    one = {"a": torch.arange(4.0), "b": torch.ones(2)}
    value = fingerprint({"x": 1, "y": 2}, one)
    assert value == fingerprint({"y": 2, "x": 1}, dict(reversed(one.items())))
    others = (
        {"a": torch.arange(4.0), "c": torch.ones(2)},
        {"a": torch.arange(4.0).view(2, 2), "b": torch.ones(2)},
        {"a": torch.arange(4.0).view(torch.int32), "b": torch.ones(2)},
        {"a": torch.arange(4.0), "b": torch.tensor([1.0, 2.0])},
    )
    assert all(fingerprint({"x": 1, "y": 2}, other) != value for other in others)
    assert fingerprint({"x": 1, "y": 3}, one) != value


def test_only_the_main_thread_defers_interrupts(tmp_path):
    checkpoint, seen = Checkpoint(tmp_path / "file", "a run"), []
    before = signal.getsignal(signal.SIGINT)

    def elsewhere():
        with checkpoint.deferring_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    with checkpoint.deferring_interrupts():
        seen.append(signal.getsignal(signal.SIGINT))
    assert seen[0] == before
    assert seen[1] != before
    assert signal.getsignal(signal.SIGINT) == before


def test_an_interrupt_of_another_process_stops_this_one(tmp_path, monkeypatch):
    """A launcher may send its signal twice; the first process alone writes."""
    monkeypatch.setattr(processes, "active", lambda: True)
    monkeypatch.setattr(processes, "total_number", lambda own: own + others)
    monkeypatch.setattr(processes, "broadcast_bytes", lambda content: content)
    for rank in (0, 1):
        monkeypatch.setattr(processes, "rank", lambda rank=rank: rank)
        file = tmp_path / str(rank)
        checkpoint, state, others = Checkpoint(file, "a run", every=1e6), small(), 0
        with checkpoint.deferring_interrupts():
            checkpoint.after_step("train", 1, State(*state))
            others = 1
            with pytest.raises(KeyboardInterrupt):
                checkpoint.after_step("train", 2, State(*state))
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        assert file.exists() == (rank == 0)
    written = tmp_path / "0"
    assert not Checkpoint(written, "a run").resumed  # the other is told by the first


def test_a_failure_of_the_format_is_told_too(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise SafetensorError("out of room")

    monkeypatch.setattr(module, "save_file", fail)
    with pytest.warns(RuntimeWarning, match="file: out of room; there is none yet"):
        Checkpoint(tmp_path / "file", "a run", every=0).after_step("train", 1, State(*small()))


def test_a_file_that_cannot_be_read_is_damaged(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="damaged"):
        Checkpoint(tmp_path / "folder", "a run")
