"""Published weights: what loads, what is refused in one line, and that the pictures come back."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dcfsc.errors import InputError
from dcfsc.networks import (
    ConvAutoencoder,
    load_published_weights,
    preset,
    preset_for_weights,
    preset_spec,
)

ROOT = Path(os.environ.get("DCFSC_DATA", "/nonexistent"))
needs_data = pytest.mark.skipif(not ROOT.is_dir(), reason="DCFSC_DATA is not set")


@pytest.fixture
def orl_file(tmp_path):
    path = tmp_path / "dsc_orl.safetensors"
    save_file(preset("dsc-orl", torch.Generator().manual_seed(4)).state_dict(), path)
    return path


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_weights_arrive(orl_file):
    net = load_published_weights(preset("dsc-orl"), orl_file)
    source = preset("dsc-orl", torch.Generator().manual_seed(4))
    expected = source.state_dict()
    assert all(torch.equal(v, expected[k]) for k, v in net.state_dict().items())


def test_wrong_network_names_expected_and_found(orl_file):
    net = preset("orl")
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(InputError) as error:
        load_published_weights(net, orl_file)
    text = one_line(error)
    assert "expected encoder.0.weight (5, 1, 5, 5)" in text
    assert "found (3, 1, 3, 3)" in text
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_missing_and_extra_entries(tmp_path):
    state = preset("dsc-orl").state_dict()
    path = tmp_path / "w.safetensors"
    save_file({k: v for k, v in state.items() if k != "decoder.2.bias"}, path)
    with pytest.raises(InputError, match=r"expected decoder.2.bias \(1,\), found no such entry"):
        load_published_weights(preset("dsc-orl"), path)
    save_file({**state, "coef": torch.zeros(2, 2)}, path)
    with pytest.raises(InputError, match=r"expected coef no such entry, found \(2, 2\)"):
        load_published_weights(preset("dsc-orl"), path)


def test_damaged_files(orl_file, tmp_path):
    whole = orl_file.read_bytes()
    for keep in (0, 5, 100, len(whole) - 7):
        orl_file.write_bytes(whole[:keep])
        with pytest.raises(InputError, match="not a whole safetensors file") as error:
            load_published_weights(preset("dsc-orl"), orl_file)
        one_line(error)
    with pytest.raises(InputError, match="no weights file") as error:
        load_published_weights(preset("dsc-orl"), tmp_path / "absent.safetensors")
    one_line(error)
    with pytest.raises(InputError):
        load_published_weights(preset("dsc-orl"), tmp_path)
    state = {k: v.clone() for k, v in preset("dsc-orl").state_dict().items()}
    state["encoder.1.weight"][0, 0, 0, 0] = torch.nan
    save_file(state, orl_file)
    with pytest.raises(InputError, match=r"NaN or infinity in encoder\.1\.weight"):
        load_published_weights(preset("dsc-orl"), orl_file)


@pytest.mark.parametrize(
    ("stored", "name", "expected"),
    [
        ("dsc-orl", "dsc_orl", "dsc-orl"),
        ("dsc-orl", "anything", "dsc-orl"),
        ("orl", "mine", "orl"),
        ("eyaleb", "mine", "dsc-eyaleb"),
        ("eyaleb", "eyaleb", "eyaleb"),
        ("coil100", "mine", "coil100"),
        ("dsc-coil100", "mine", "dsc-coil100"),
    ],
)
def test_preset_for_weights(tmp_path, stored, name, expected):
    path = tmp_path / f"{name}.safetensors"
    save_file(preset(stored).state_dict(), path)
    assert preset_for_weights(path) == expected
    load_published_weights(preset(expected), path)


def test_weights_of_no_known_network(tmp_path):
    path = tmp_path / "w.safetensors"
    spec = replace(preset_spec("dsc-orl"), channels=(3, 3, 6))
    save_file(ConvAutoencoder(spec).state_dict(), path)
    with pytest.raises(InputError, match=r"fits no known network \(encoder channels \[3, 3, 6\]"):
        preset_for_weights(path)


@needs_data
@pytest.mark.data
@pytest.mark.parametrize(
    ("weights", "images", "error"),
    [
        ("dsc_orl", "orl_32x32", 0.14),
        ("dsc_eyaleb", "eyaleb_48x42", 0.06),
        ("dsc_coil100", "coil100_32x32", 0.006),
    ],
)
def test_published_weights_reconstruct_the_images(weights, images, error):
    path = ROOT / "weights" / f"{weights}.safetensors"
    net = load_published_weights(preset(preset_for_weights(path)), path)
    assert net.spec == preset_spec(weights.replace("_", "-"))
    with np.load(ROOT / f"{images}.npz") as arrays:
        x = torch.from_numpy(arrays["images"][:: len(arrays["images"]) // 200])[:, None].float()
    other = ConvAutoencoder(replace(net.spec, transposed=not net.spec.transposed))
    load_published_weights(other, path)
    with torch.no_grad():
        right, wrong = ((n(x) - x).norm() / x.norm() for n in (net, other))
    assert right < error
    assert right < 0.95 * wrong
