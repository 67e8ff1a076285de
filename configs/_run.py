"""The keys of every run; a task's own keys are in configs/TASK.py.

Values are the paper's if it gives any.
"""

KEYS = {
    "task": "",  # the task to learn: a name in transformer/registry.py
    # 'tuned' to each platform, or 'plain'; 'cudnn' adds kernels for NVIDIA GPUs (docs/scaling.md).
    "kernels": ["tuned", "a name in registry.KERNELS"],
    "compilation_cache": "~/.cache/transformer",  # JAX's persistent cache; "": no cache
    "optimizer.name": "adam",  # any of optax or optax.contrib: adamw, sgd, lion, muon, ...
    "optimizer.arguments.b1": [0.9, "at least 0 and below 1"],
    "optimizer.arguments.b2": [0.98, "at least 0 and below 1"],
    "optimizer.arguments.eps": [1e-9, "above 0"],
    # Parameters to freeze: comma-separated prefixes of paths, "encoder,embedding".
    "optimizer.frozen": "",
    # Clip the gradient's global norm to this; 0: no clipping.
    "optimizer.clip_norm": [0.0, "at least 0"],
    # Decay of a moving average of the params, such as 0.999, which validation scores and 'best'
    # saves; 0: none.
    "optimizer.moving_average": [0.0, "at least 0 and below 1"],
    # Paper, equation 3: factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).
    # Any schedule of optax.schedules whose arguments are numbers works, too: its name here, its
    # arguments as further keys.
    "optimizer.schedule.name": "inverse_square_root",
    "optimizer.schedule.d_model": [512, "at least 1"],
    "optimizer.schedule.warmup_steps": [4000, "at least 1"],
    "optimizer.schedule.factor": [1.0, "above 0"],
    "train.num_steps": [100_000, "at least 1"],  # updates
    "train.accumulate": [1, "at least 1"],  # micro-batches per update: less memory, same gradient
    # For initial params, dropout, vocabulary and the order of the data.
    "train.seed": [0, "at least 0"],
    # Start a new run from this workdir's best params (fresh optimizer); "": random params.
    "train.init_from": "",
    # Params to initialise anew: comma-separated prefixes of paths, such as "head,encoder"; also
    # "vocabulary" or "labels" if they differ from the other run's.
    "train.init_skip": "",
    "train.log_every": [100, "at least 1"],  # steps between two lines of metrics
    # Steps between two checkpoints: the paper's ten minutes.
    "train.save_every": [1500, "at least 1"],
    "train.trackers": "",  # also log to "wandb", "mlflow" or both (docs/running.md)
    # Steps in params/, multiples of save_every and the newest; at least evaluate.average_last.
    "train.keep": [5, "at least 1"],
    # 'pmap' is data-parallel; 'jit' is one program over the mesh.
    "parallel.strategy": ["pmap", ("pmap", "jit")],
    # Devices along (data, fsdp, tensor); 0: all remaining devices. fsdp and tensor shard params and
    # optimizer state, and need strategy 'jit' (docs/running.md).
    "parallel.mesh": (0, 1, 1),
    # For several hosts, if JAX does not detect the cluster.
    "parallel.coordinator": "",  # HOST:PORT of process 0
    "parallel.num_processes": [0, "at least 0"],
    "parallel.process_id": [0, "at least 0"],
    # Steps between two validations; 0: only after the last step.
    "evaluate.every": [5000, "at least 0"],
    "evaluate.split": "test",  # scored after training and by --mode=evaluate
    # The params to score: the 'average' of checkpoints, 'best' of all validations, or 'latest'.
    "evaluate.weights": ["average", ("average", "best", "latest")],
    "evaluate.average_last": [5, "at least 1"],  # checkpoints to average (paper, section 6.1)
    # Comma-separated workdirs to ensemble with, by averaging probabilities.
    "evaluate.ensemble": "",
    # Early stopping after so many validations without a better score; 0: off.
    "evaluate.patience": [0, "at least 0"],
}
