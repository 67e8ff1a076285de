"""The mesh of devices, and the sharding of each array of a training state on it.

A train step is written once, `train_step(state, batch, *, axis=None)`, and runs in one of two ways:

* 'pmap': each device holds a replica of the state and runs the step on its rows of the batch. The
  step sums gradients over the mapped `axis`.
* 'jit': one global program. The batch is sharded by rows, the state by the table RULES, and XLA
  inserts the communication.

Both have the same state and checkpoints, so that either resumes the other's run. The mesh has the
devices of all processes. Each process loads the rows that its devices need.
"""

import contextlib
import math
import re
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from transformer.errors import UserError

Tree = Any

# data: the state is replicated. fsdp: the state is sharded, and params are gathered for use (fully
# sharded data parallelism; ZeRO, Rajbhandari et al. 2020). tensor: the state is sharded, and each
# device multiplies its shard (tensor parallelism, Shoeybi et al. 2019).
AXES = ("data", "fsdp", "tensor")
PMAP_AXIS = "data"  # the axis that pmap maps
ROW_AXES = ("data", "fsdp")  # the axes that a batch's rows are sharded over

# Regex for the end of a parameter's path -> the mesh axis of each dimension. An optimizer's moments
# have the same ends, and are sharded alike. Arrays without a rule, and dimensions that their axis
# does not divide, are replicated. The letters are those of models/__init__.py.
RULES = (
    (r"embedding", ("tensor", "fsdp")),  # VD
    (r"(query|key|value)/kernel", ("fsdp", "tensor", None)),  # DHK
    (r"(query|key|value)/bias", ("tensor", None)),  # HK
    (r"output/kernel", ("tensor", None, "fsdp")),  # HCD
    (r"experts/(inner|outer)/kernel", ("tensor", "fsdp", None)),  # EDF, EFD
    (r"experts/(inner|outer)/bias", ("tensor", None)),  # EF, ED
    (r"(inner|gate)/kernel", ("fsdp", "tensor")),  # DF
    (r"(inner|gate)/bias", ("tensor",)),  # F
    (r"outer/kernel", ("tensor", "fsdp")),  # FD
)


class Layout(NamedTuple):
    """A strategy, and the mesh of devices it runs on, with the axes AXES."""

    strategy: str
    mesh: Mesh

    @property
    def batch_sharding(self) -> NamedSharding:
        """The sharding of a global batch: by rows."""
        return NamedSharding(self.mesh, PartitionSpec(ROW_AXES))

    @property
    def replicated(self) -> NamedSharding:
        """The sharding of an array that every device holds in full."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def num_row_shards(self) -> int:
        """The number of shards that a batch's rows are split into."""
        return math.prod(self.mesh.shape[axis] for axis in ROW_AXES)


def make_layout(
    strategy: str,
    mesh: tuple[int, ...] = (0, 1, 1),
    num_devices: int = 0,
    devices: Sequence[jax.Device] = (),
) -> Layout:
    """Returns a layout of the first `num_devices` devices (0: all) of all processes.

    `mesh` is the size of each of AXES. A data size of 0 is inferred: on 8 devices, (0, 2, 1) gives
    (4, 2, 1). `devices` may be abstract, to compile for absent hardware. UserError if the devices
    do not fill the mesh, or the strategy cannot use it.
    """
    devices = (devices or jax.devices())[: num_devices or None]
    are_counts = len(mesh) == 3 and all(isinstance(size, int) for size in mesh)
    if not are_counts or mesh[0] < 0 or min(mesh[1:]) < 1:
        raise UserError(
            f"config.parallel.mesh must be (data, fsdp, tensor), such as (0, 1, 1), found {mesh}"
        )
    state_parts = mesh[1] * mesh[2]
    shape = (mesh[0] or max(1, len(devices) // state_parts), *mesh[1:])
    if math.prod(shape) != len(devices):
        raise UserError(
            f"config.parallel.mesh={mesh} does not match the number of devices, {len(devices)}: "
            "data * fsdp * tensor must equal that number, and data=0 is inferred"
        )
    if strategy == "pmap" and state_parts > 1:
        raise UserError(
            f"config.parallel.mesh={mesh} shards the state, which config.parallel.strategy='pmap' "
            "cannot do: set config.parallel.strategy='jit'"
        )
    if strategy == "pmap":
        # pmap requires each process's devices to be adjacent.
        devices = sorted(devices, key=lambda device: (device.process_index, device.id))
        arranged = np.array(devices).reshape(shape)
    else:
        # If possible, neighbours on a mesh axis are neighbours in the hardware's network.
        arranged = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
    return Layout(strategy, Mesh(arranged, AXES))


# The state, in training and as a checkpoint's global arrays.


def state_shardings(state: Tree, layout: Layout) -> Tree:
    """Returns the sharding of each array of a training state, from its path and shape."""
    if layout.strategy == "pmap":
        replicated = _replicated_on(layout.mesh.local_devices)
        return jax.tree.map(lambda _: replicated, state)

    def by_rule(path: tuple, x: jax.ShapeDtypeStruct) -> NamedSharding:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        axes = next((axes for end, axes in RULES if re.search(f"(^|/)({end})$", name)), None)
        # Adafactor's factored moments have their parameter's path, but not its shape.
        if axes is None or len(axes) != x.ndim:
            axes = (None,) * x.ndim
        kept_axes = [  # that divide their dimension
            axis if axis and size % layout.mesh.shape[axis] == 0 else None
            for axis, size in zip(axes, x.shape, strict=True)
        ]
        return NamedSharding(layout.mesh, PartitionSpec(*kept_axes))

    return jax.tree_util.tree_map_with_path(by_rule, state)


def place(tree: Tree, shardings: Tree) -> Tree:
    """Returns arrays on the devices of their shardings.

    All processes pass the same arrays, and each puts its devices' slices.
    """

    def place_array(x: np.ndarray | jax.Array, sharding: NamedSharding) -> jax.Array:
        return jax.make_array_from_callback(x.shape, sharding, np.asarray(x).__getitem__)

    return jax.tree.map(place_array, tree, shardings)


def to_restore(shapes: Tree, layout: Layout) -> Tree:
    """Returns the shapes, dtypes and shardings to restore a checkpoint's arrays with.

    They are global arrays, sharded as in training; under pmap, replicated on all devices.
    """
    if layout.strategy == "pmap":
        shardings = jax.tree.map(lambda _: layout.replicated, shapes)
    else:
        shardings = state_shardings(shapes, layout)
    abstract = lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
    return jax.tree.map(abstract, shapes, shardings)


def to_save(state: Tree, layout: Layout) -> Tree:
    """Returns a training state as global arrays, which checkpoints require.

    Under pmap, the processes hold equal local arrays.
    """
    return state if layout.strategy == "jit" else _with_sharding(state, layout.replicated)


def from_saved(state: Tree, layout: Layout) -> Tree:
    """Returns a state that was restored by `to_restore` as training holds it."""
    return state if layout.strategy == "jit" else local_replicas(state)


def _with_sharding(tree: Tree, sharding: NamedSharding) -> Tree:
    """Returns replicated arrays with another replicated sharding, without copying.

    This process must have the same devices in both shardings.
    """

    def relabel(x: jax.Array) -> jax.Array:
        replicas = [shard.data for shard in x.addressable_shards]
        return jax.make_array_from_single_device_arrays(x.shape, sharding, replicas)

    return jax.tree.map(relabel, tree)


def bytes_per_device(state: Tree) -> int:
    """Returns the bytes that a state, concrete or abstract, occupies on one device."""
    shards = ((x.sharding.shard_shape(x.shape), x.dtype.itemsize) for x in jax.tree.leaves(state))
    return sum(math.prod(shape) * itemsize for shape, itemsize in shards)


# Replicas on this process's devices, to train under pmap and for inference, because each process
# evaluates and decodes its own share of the data.


def local_replicas(tree: Tree) -> Tree:
    """Returns globally replicated arrays as arrays on this process's devices only."""
    shards = jax.tree.leaves(tree)[0].addressable_shards
    return _with_sharding(tree, _replicated_on([shard.device for shard in shards]))


def _replicated_on(devices: Sequence[jax.Device]) -> NamedSharding:
    return NamedSharding(Mesh(devices, (PMAP_AXIS,)), PartitionSpec())


def gather_params(params: Tree, layout: Layout) -> Tree:
    """Returns a training state's params, replicated on this process's devices. Collective."""
    if layout.strategy == "jit":
        # The all-gather of sharded params: an identity whose output is replicated.
        params = jax.jit(_identity, out_shardings=layout.replicated)(params)
    return local_replicas(params)


def num_devices(params: Tree) -> int:
    """Returns the number of devices that hold the params; `shard_rows` takes multiples of it."""
    leaf = jax.tree.leaves(params)[0]
    return len(leaf.sharding.device_set) if isinstance(leaf, jax.Array) else 1


_LAUNCHING = threading.RLock()


def launching(params: Tree) -> contextlib.AbstractContextManager:
    """Context manager that, with params on several devices, admits one thread at a time.

    Two threads that launch programs on all devices can deadlock.
    """
    return _LAUNCHING if num_devices(params) > 1 else contextlib.nullcontext()


def shard_rows(tree: Tree, params: Tree) -> Tree:
    """Shards arrays by their first dimension over the params' devices, and replicates scalars."""
    if num_devices(params) == 1:
        return tree
    replicated = jax.tree.leaves(params)[0].sharding
    by_rows = NamedSharding(replicated.mesh, PartitionSpec(PMAP_AXIS))
    shardings = jax.tree.map(lambda x: by_rows if np.ndim(x) else replicated, tree)
    return jax.device_put(tree, shardings)


def _identity(tree: Tree) -> Tree:  # one function, so that jit compiles it once
    return tree
