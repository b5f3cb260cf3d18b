"""The paper's three network tables, counted from the networks that the library builds."""

from __future__ import annotations

from dcfsc import networks

from . import paper
from .cells import Cell, Record
from .pipeline import Session

# DSC's networks are DCFSC's in the tables, but for COIL-100's single layer.
_DSC = {"coil100": "dsc-coil100"}
_NOTES = {
    ("coil100", "dsc"): "COIL-100's DSC decoder has 1,251 parameters, as its published weights do: "
    "25 x 50 and one bias; the paper's table repeats the encoder's 1,300",
}


def layer_sizes(network: networks.ConvAutoencoder) -> dict[str, int]:
    """Numbers that each layer holds, the running statistics of its batch norm among them."""
    return {
        f"{part}-{i}": sum(len(v.flatten()) for v in layer.state_dict().values() if v.ndim)
        for part, layers in (("Encoder", network.encoder), ("Decoder", network.decoder))
        for i, layer in enumerate(layers, start=1)
    }


def measure_network(cell: Cell, session: Session) -> Record:
    """Layer by layer ours and the paper's; DSC has N^2 coefficients more, DCFSC none."""
    dataset = cell.problem.dataset
    printed = paper.NETWORKS[dataset]
    name = _DSC.get(dataset, dataset) if cell.method == "dsc" else dataset
    sizes = layer_sizes(networks.preset(name))
    layers = list(sizes.values())
    self_expressive = printed["n"] ** 2 if cell.method == "dsc" else 0
    return {
        "n": printed["n"],
        "network": name,
        "names": list(sizes),
        "layers": layers,
        "paper_layers": printed[cell.method]["layers"],
        "self_expressive": self_expressive,
        "total": sum(layers) + self_expressive,
        "paper_total": printed[cell.method]["total"],
        "notes": _NOTES.get((dataset, cell.method), ""),
    }
