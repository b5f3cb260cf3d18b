"""Specs: JSON there and back, sizes, and what they refuse."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.networks import PRESETS, ConvSpec, MLPSpec, from_dict

counts = st.integers(1, 64)


@st.composite
def conv_specs(draw):
    depth = draw(st.integers(1, 4))
    layers = [draw(st.tuples(*[st.integers(1, 9)] * depth)) for _ in range(3)]
    return ConvSpec(
        draw(st.tuples(counts, counts, counts)),
        *layers,
        batch_norm=draw(st.booleans()),
        transposed=draw(st.booleans()),
        input_scale=draw(st.floats(1e-6, 1e6)),
        latent_relu=draw(st.booleans()),
        output_relu=draw(st.booleans()),
    )


mlp_specs = st.builds(
    MLPSpec,
    input_dim=counts,
    hidden=st.lists(counts, max_size=3).map(tuple),
    latent_dim=counts,
    activation=st.sampled_from(["relu", "tanh", "elu", "gelu"]),
    input_scale=st.floats(1e-6, 1e6),
)


@given(spec=st.one_of(conv_specs(), mlp_specs))
def test_round_trip_through_json(spec):
    restored = from_dict(json.loads(json.dumps(spec.to_dict())))
    assert restored == spec
    assert hash(restored) == hash(spec)
    assert type(restored) is type(spec)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_round_trip(name):
    assert from_dict(json.loads(json.dumps(PRESETS[name].to_dict()))) == PRESETS[name]


def test_eyaleb_maps_are_the_published_ones():
    sizes = [(g.out_height, g.out_width) for g in PRESETS["eyaleb"].geometries]
    assert sizes == [(24, 21), (12, 11), (6, 6)]


def test_a_transposed_network_sees_the_other_side_first():
    spec = ConvSpec((1, 10, 6), (4,), (3,), (2,), transposed=True)
    assert spec.latent_shape == (4, 3, 5)
    assert spec.sample_shape == (1, 10, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 8), (4,), (3,), (2,)), "channels, height, width"),
        (((1, 8, 8), (4, 5), (3,), (2,)), "one entry for each encoder layer"),
        (((1, 8, 8), (), (), ()), "one entry for each encoder layer"),
        (((1, 8, 0), (4,), (3,), (2,)), "input_shape must be whole numbers"),
        (((1, 8, 8), (4.5,), (3,), (2,)), "channels must be whole numbers"),
        (((1, 8, 8), ("four",), (3,), (2,)), "channels must be whole numbers"),
        (((1, 8, 8), (4,), (3,), (2,), False, False, 0.0), "input_scale"),
        (((1, 8, 8), (4,), (3,), (2,), False, False, float("nan")), "input_scale"),
    ],
)
def test_conv_spec_refuses(arguments, message):
    with pytest.raises(InputError, match=message) as error:
        ConvSpec(*arguments)
    assert "\n" not in str(error.value)


def test_mlp_spec_refuses():
    with pytest.raises(InputError, match="latent_dim"):
        MLPSpec(4, (8,), 0)
    with pytest.raises(InputError, match="hidden"):
        MLPSpec(4, (0,), 2)
    with pytest.raises(InputError, match=r"unknown activation 'rely'.*relu"):
        MLPSpec(4, (8,), 2, "rely")


def test_from_dict_refuses():
    good = PRESETS["orl"].to_dict()
    with pytest.raises(InputError, match="kind of network"):
        from_dict({"kind": "transformer"})
    with pytest.raises(InputError, match=r"'kernel'.*Did you mean 'kernels'"):
        from_dict({**good, "kernel": 3})
    with pytest.raises(InputError, match=r"incomplete.*channels"):
        from_dict({k: v for k, v in good.items() if k != "channels"})
    with pytest.raises(InputError, match="entry of a mlp network 'input_shape'"):
        from_dict({**good, "kind": "mlp"})
