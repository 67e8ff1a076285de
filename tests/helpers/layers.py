"""Values of a layer's params; the FLOPs and the arrays of a program."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from configs import _keys, _layers
from transformer.models.layer_options import LayerOptions


def randomised(variables, seed=0):
    """Normal values everywhere, biases too, which begin as zeros."""
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda p: jnp.asarray(random.normal(0, 0.2, p.shape), p.dtype), variables)


def paper(**changes):
    """The paper's LayerOptions, with changes."""
    values = {**_keys.make(_layers.KEYS).model, **changes}
    del values["dtype"]  # a field of each module
    return LayerOptions(**values)


def products(jaxpr):
    """The FLOPs of all matrix products and convolutions in a program, and in those it calls."""
    total = 0
    for equation in jaxpr.eqns:
        name, size = equation.primitive.name, sum(x.aval.size for x in equation.outvars)
        if name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            total += 2 * math.prod(shape[axis] for axis in contracted) * size
        elif name == "conv_general_dilated":
            kernel = equation.invars[1].aval.shape  # [height, width, in, out]
            total += 2 * math.prod(kernel[:3]) * size
        called = [getattr(value, "jaxpr", value) for value in equation.params.values()]
        times = equation.params["length"] if name == "scan" else 1
        total += times * sum(products(x) for x in called if isinstance(x, jax.extend.core.Jaxpr))
    return total


def intermediates(jaxpr):
    """Yields what every equation of a program computes, and those of the programs it calls."""
    for equation in jaxpr.eqns:
        yield from (x.aval for x in equation.outvars)
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")
        ):
            called = getattr(value, "jaxpr", value)
            if isinstance(called, jax.extend.core.Jaxpr):
                yield from intermediates(called)
