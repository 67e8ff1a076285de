"""One device -> many: the only file that knows that there are many.

A train step is written once, `train_step(state, batch, *, axis=None)`. 'pmap' runs it on every
device with its part of the batch, and the step sums over the mapped `axis` itself; 'jit' runs it as
one global program whose batch is split by rows and whose state is split by the table RULES, and XLA
finds what has to be sent. Either can go on where the other stopped: the state is the same.

The devices are those of all processes. A process reads the rows that its own devices want.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from transformer.errors import UserError

Tree = Any

STRATEGIES = ("pmap", "jit")
# Copies of the state; parts of it that are put together when they are used (fully sharded data
# parallelism, ZeRO: Rajbhandari et al. 2020); parts that are multiplied where they are (tensor
# parallelism: Shoeybi et al. 2019).
AXES = ("data", "fsdp", "tensor")
AXIS = "data"  # the mapped one
ROWS = ("data", "fsdp")  # a batch's rows are split over both

# By the end of a parameter's path: the axis that each dimension is split over. Adam's moments have
# their parameters' paths, and are split likewise. All else is whole on every device, and so is a
# dimension that the axis does not divide.
RULES = (
    (r"embedding", ("tensor", "fsdp")),  # VD
    (r"(query|key|value)/kernel", ("fsdp", "tensor", None)),  # DHK
    (r"(query|key|value)/bias", ("tensor", None)),  # HK
    (r"output/kernel", ("tensor", None, "fsdp")),  # HCD
    (r"inner/kernel", ("fsdp", "tensor")),  # DF
    (r"inner/bias", ("tensor",)),  # F
    (r"outer/kernel", ("tensor", "fsdp")),  # FD
)


class Layout(NamedTuple):
    """How a run is spread: by which strategy, over which mesh of devices, whose axes are AXES."""

    strategy: str
    mesh: Mesh

    @property
    def batch_sharding(self) -> NamedSharding:
        """A global batch, split by rows."""
        return NamedSharding(self.mesh, PartitionSpec(ROWS))

    @property
    def replicated(self) -> NamedSharding:
        """An array that every device has."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def row_parts(self) -> int:
        """How many parts a batch's rows are split into."""
        return math.prod(self.mesh.shape[axis] for axis in ROWS)


def check(strategy: str) -> None:
    """UserError for a strategy that is none."""
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise UserError(f"config.parallel.strategy is one of {known}, found {strategy!r}")


def make_layout(
    strategy: str,
    mesh: tuple[int, ...] = (0, 1, 1),
    num_devices: int = 0,
    devices: Sequence[jax.Device] = (),
) -> Layout:
    """All devices, or the first so many, as a mesh of (data, fsdp, tensor); 0: all that are left.

    UserError if they do not make such a mesh. `devices` may be some that are not here, to compile.
    """
    check(strategy)
    devices = (devices or jax.devices())[: num_devices or None]
    if len(mesh) != 3 or mesh[0] < 0 or min(mesh[1:]) < 1:
        raise UserError(
            f"config.parallel.mesh is (data, fsdp, tensor), such as (0, 1, 1), found {mesh}"
        )
    split = mesh[1] * mesh[2]
    shape = (mesh[0] or max(1, len(devices) // split), *mesh[1:])
    if math.prod(shape) != len(devices):
        raise UserError(
            f"config.parallel.mesh={mesh} does not match the number of devices, {len(devices)}: "
            "(data, fsdp, tensor) have to multiply to that, and data=0 takes what is left"
        )
    if strategy == "pmap" and split > 1:
        raise UserError(
            f"config.parallel.mesh={mesh} splits the state, which config.parallel.strategy='pmap' "
            "cannot: set it to 'jit'"
        )
    if strategy == "pmap":  # which wants each process's devices side by side
        devices = sorted(devices, key=lambda device: (device.process_index, device.id))
        arranged = np.array(devices).reshape(shape)
    else:  # neighbours along an axis are neighbours in the machine, as far as they can be
        arranged = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
    return Layout(strategy, Mesh(arranged, AXES))


# The state.


def state_shardings(state: Tree, layout: Layout) -> Tree:
    """Where each array of a state is while it is trained, by its path and shape."""
    if layout.strategy == "pmap":
        own = _replicated_on(layout.mesh.local_devices)
        return jax.tree.map(lambda _: own, state)

    def by_rule(path: tuple, x: jax.ShapeDtypeStruct) -> NamedSharding:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        axes = next((axes for end, axes in RULES if re.search(f"(^|/)({end})$", name)), None)
        if axes is None or len(axes) != x.ndim:  # adafactor's factors are not of a param's shape
            axes = (None,) * x.ndim
        fits = [
            axis if axis and size % layout.mesh.shape[axis] == 0 else None
            for axis, size in zip(axes, x.shape, strict=True)
        ]
        return NamedSharding(layout.mesh, PartitionSpec(*fits))

    return jax.tree_util.tree_map_with_path(by_rule, state)


def to_restore(shapes: Tree, layout: Layout | None = None) -> Tree:
    """What a checkpoint's arrays are restored as: as they are trained, but that each is one array
    of all processes; without a layout, whole on all devices."""
    if layout is None or layout.strategy == "pmap":
        whole = layout.replicated if layout else _replicated_on(jax.devices())
        shardings = jax.tree.map(lambda _: whole, shapes)
    else:
        shardings = state_shardings(shapes, layout)
    like = lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
    return jax.tree.map(like, shapes, shardings)


def to_save(state: Tree, layout: Layout) -> Tree:
    """A state as checkpoints take it: mapped processes have a copy each, here they are one."""
    return state if layout.strategy == "jit" else _with_sharding(state, layout.replicated)


def from_saved(state: Tree, layout: Layout) -> Tree:
    """A state that was restored as `to_restore` says, as it is trained."""
    return state if layout.strategy == "jit" else local_replicas(state)


def _with_sharding(tree: Tree, sharding: NamedSharding) -> Tree:
    """Whole arrays, by another sharding that has them whole on this process's devices."""

    def regard(x: jax.Array) -> jax.Array:
        parts = [shard.data for shard in x.addressable_shards]
        return jax.make_array_from_single_device_arrays(x.shape, sharding, parts)

    return jax.tree.map(regard, tree)


def bytes_per_device(state: Tree) -> int:
    """What a state, or its abstract one, takes on one device."""
    shapes = ((x.sharding.shard_shape(x.shape), x.dtype.itemsize) for x in jax.tree.leaves(state))
    return sum(math.prod(shape) * size for shape, size in shapes)


# Decoding and evaluation: each process for itself, its devices with the whole parameters.


def local_replicas(tree: Tree) -> Tree:
    """Arrays that all devices have, as this process's alone."""
    shards = jax.tree.leaves(tree)[0].addressable_shards
    return _with_sharding(tree, _replicated_on([shard.device for shard in shards]))


def _replicated_on(devices: Sequence[jax.Device]) -> NamedSharding:
    """Whole on each of these."""
    return NamedSharding(Mesh(devices, (AXIS,)), PartitionSpec())
