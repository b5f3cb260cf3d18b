"""Models from anybody: what a file says is checked, and no place that it names is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone

from dcfsc import DCFSC, ClosedFormSubspaceClustering, EncoderFeatures, ScatteringFeatures
from dcfsc.errors import InputError
from dcfsc.estimators import encoder_features
from dcfsc.estimators.registry import load_model
from dcfsc.features.encoder_backends import NameInFile
from dcfsc.features.encoders import InputImages, TorchEncoder
from dcfsc.training.checkpoint import fingerprint

X = np.random.default_rng(0).integers(0, 256, (24, 8, 8)).astype(np.uint8)
DEEP = {"pretrain_epochs": 1, "steps": 1, "random_state": 0, "verbose": False, "device": "cpu"}


class Tiny(TorchEncoder):
    def __init__(self, name: Any, device: torch.device):
        opened.append(name)
        super().__init__(str(name), torch.nn.Flatten(), InputImages((8, 8)), device)


opened: list[Any] = []


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(encoder_features, "open_encoder", Tiny)
    monkeypatch.setattr(encoder_features, "default_place", lambda: tmp_path / "default")


def header(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["dcfsc"])


def forge(path: Path, part: str, **values: Any) -> None:
    """Change what a model's header says, with a checksum that is right again."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    ours = header(path)
    ours[part] |= values
    del ours["sha256"]
    ours["sha256"] = fingerprint(ours, tensors)
    save_file(tensors, path, metadata={"dcfsc": json.dumps(ours)})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X).save(folder / "closed")
    DCFSC(3, **DEEP).fit(X).save(folder / "deep")  # type: ignore[arg-type]
    ScatteringFeatures(J=2, device="cpu", verbose=False).fit(X).save(folder / "scattering")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_features, "open_encoder", Tiny)
        EncoderFeatures("some/name", device="cpu", verbose=False).fit(X).save(folder / "encoder")
    return folder


@pytest.fixture
def model(request: pytest.FixtureRequest, whole: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "model.safetensors"
    copy.write_bytes((whole / request.param).read_bytes())
    return copy


def named(*names: str) -> Any:
    return pytest.mark.parametrize("model", names, indirect=True)


@named("deep")
def test_a_checkpoint_in_a_model_is_neither_opened_nor_written(model, tmp_path):
    forge(model, "params", checkpoint=str(tmp_path / "theirs"), checkpoint_every=0)
    loaded = load_model(model)
    assert loaded.checkpoint is None
    assert -1.0 <= loaded.score(X) <= 1.0  # fits a copy
    assert not (tmp_path / "theirs").exists()


@named("deep")
@pytest.mark.parametrize("weights", ["theirs.safetensors", "dsc-orl"])
def test_weights_in_a_model_are_not_used(model, weights):
    forge(model, "params", weights=weights)
    assert load_model(model).weights is None


@named("encoder")
def test_a_cache_in_a_model_is_not_used(model, tmp_path):
    forge(model, "params", cache=str(tmp_path / "theirs"))
    features = load_model(model)
    assert features.cache == "auto"
    assert features.transform(X).shape == (24, 192)
    assert not (tmp_path / "theirs").exists()
    assert (tmp_path / "default").is_dir()


@named("encoder")
def test_the_name_in_a_model_stays_one_of_a_file(model):
    for features in (load_model(model), clone(load_model(model))):
        opened.clear()
        features.open()
        assert [type(name) for name in opened] == [NameInFile]
        assert opened == ["some/name"]


def test_no_place_is_saved(tmp_path):
    path = tmp_path / "model"
    DCFSC(3, **DEEP, checkpoint=tmp_path / "c").fit(X).save(path)  # type: ignore[arg-type]
    assert str(tmp_path) not in json.dumps(header(path))
    EncoderFeatures("some/name", cache=tmp_path / "k", device="cpu").fit(X).save(path)
    assert str(tmp_path) not in json.dumps(header(path))


@named("closed", "deep", "scattering")
@pytest.mark.parametrize(
    ("part", "values", "said"),
    [
        ("params", {"evil": 1}, "unexpected keyword argument 'evil'"),
        ("params", {"device": 3.5}, "device"),
        ("params", {"device": "meta"}, "meta tensor"),
        ("values", {"sample_shape": [10**9, 10**9]}, "have no shape"),
        ("values", {"sample_shape": ["8", 8]}, "have no shape"),
        ("values", {"sample_shape": [8.0, 8]}, "have no shape"),
        ("values", {"sample_shape": [-8, -8]}, "have no shape"),
    ],
)
def test_what_every_model_says_is_checked(model, part, values, said):
    forge(model, part, **values)
    with pytest.raises(InputError, match=said) as raised:
        load_model(model)
    assert "\n" not in str(raised.value)


CASES = [
    ("closed", "params", {"n_neighbors": "x"}, "n_neighbors='x' is not allowed"),
    ("closed", "params", {"n_clusters": [3]}, "n_clusters=.* is not allowed"),
    ("closed", "params", {"normalize": 1}, "normalize=1 is not allowed"),
    ("closed", "params", {"lam": {"spec": {"kind": "evil"}}}, "unknown kind of network 'evil'"),
    ("closed", "values", {"working_shape": [10**5, 10**5]}, "do not match"),
    ("deep", "params", {"steps": "many"}, "steps='many' is not allowed"),
    ("deep", "params", {"precision": 3}, "precision=3 is not allowed"),
    ("scattering", "params", {"J": 12, "L": 1}, "filters are larger|at least 4096"),
    ("scattering", "params", {"L": 10**6}, "L=1000000 is not allowed"),
    ("scattering", "params", {"J": -1}, "J=-1 is not allowed"),
    ("scattering", "values", {"sample_shape": [9000, 9000]}, "its filters are larger"),
    ("scattering", "values", {"sample_shape": [16, 16]}, "its components do not match"),
    ("encoder", "params", {"name": ["x"]}, "name=.* is not allowed"),
    ("encoder", "params", {"batch_size": -1}, "batch_size=-1 is not allowed"),
    ("encoder", "values", {"n_features_out": 10**12}, "1000000000000 features per image"),
]


@pytest.mark.parametrize(("model", "part", "values", "said"), CASES, indirect=["model"])
def test_one_line_for_what_save_would_not_write(model, part, values, said):
    forge(model, part, **values)
    with pytest.raises(InputError, match=said) as raised:
        load_model(model)
    assert "\n" not in str(raised.value)


@named("encoder")
def test_another_number_of_features_is_one_line(model):
    forge(model, "values", n_features_out=7)
    with pytest.raises(InputError, match="gives 192 features"):
        load_model(model).transform(X)
