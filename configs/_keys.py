"""Tables of keys: each line has a key, its default, its rule, and its meaning in a comment.

    "model.d_model": 512,  # a key without a rule
    "train.num_steps": [100_000, "at least 1"],  # [default, rule]
    "evaluate.weights": ["average", ("average", "best", "latest")],  # the allowed values
    "decode.method": ["beam", "a name in registry.METHODS"],  # of transformer/registry.py

A key is set, and named in messages, as config.train.num_steps. Its type is the default's. A rule is
a phrase, such as "at least 0 and below 1", or the tuple of allowed values. All values are checked
before a run starts (transformer/workdir/key_tables.py), and --help shows the table.
"""

from ml_collections import ConfigDict


def make(table: dict) -> ConfigDict:
    """Returns the config of a table: {"model.d_ff": 4} becomes {"model": {"d_ff": 4}}."""
    config = {}
    for key, default in table.items():
        *groups, name = key.split(".")
        group = config
        for group_name in groups:
            group = group.setdefault(group_name, {})
        group[name] = default[0] if isinstance(default, list) else default
    return ConfigDict(config)
