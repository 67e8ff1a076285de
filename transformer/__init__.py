"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) in JAX and Flax.

    model = transformer.load("runs/quickstart")
    model.translate("나는 사과를 좋아해")

See docs/python.md. Names are imported on first use. __init__.pyi and py.typed are for editors and
type checkers.
"""

from typing import Any

from transformer import registry

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in registry.LIBRARY:
        return registry.load(registry.LIBRARY[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["__doc__", "__version__", *registry.LIBRARY]
