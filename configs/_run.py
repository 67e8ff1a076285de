"""The keys that every run has, whatever its task; a task's own keys are in configs/TASK.py.

Values are the paper's where it gives one.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    config = ConfigDict()
    config.task = ""  # the task to learn: a name in transformer/registry.py
    # 'tuned' to each platform, or 'plain'; 'cudnn' adds an attention for GPUs (docs/scaling.md).
    config.kernels = "tuned"
    config.compilation_cache = "~/.cache/transformer"  # JAX's persistent cache; "": no cache

    config.optimizer = ConfigDict()
    config.optimizer.name = "adam"  # any of optax or optax.contrib: adamw, sgd, lion, muon, ...
    config.optimizer.arguments = ConfigDict()  # its keyword arguments, without learning_rate
    config.optimizer.arguments.b1 = 0.9
    config.optimizer.arguments.b2 = 0.98
    config.optimizer.arguments.eps = 1e-9
    # Parameters that are not trained: comma-separated prefixes of paths, "encoder,embedding".
    config.optimizer.frozen = ""
    config.optimizer.clip_norm = 0.0  # clip the gradient's global norm to this; 0: no clipping
    # Paper, equation 3: factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).
    # Any schedule of optax.schedules works too: its name here, its arguments as further keys.
    config.optimizer.schedule = ConfigDict()
    config.optimizer.schedule.name = "inverse_square_root"
    config.optimizer.schedule.d_model = 512
    config.optimizer.schedule.warmup_steps = 4000
    config.optimizer.schedule.factor = 1.0

    config.train = ConfigDict()
    config.train.num_steps = 100_000  # updates
    config.train.accumulate = 1  # micro-batches per update: less memory, same gradient
    config.train.seed = 0  # of init, dropout, vocabulary and the order of the data
    # Start a new run with the best params of this workdir (fresh optimizer); "": with random ones.
    config.train.init_from = ""
    # What starts anew nevertheless: comma-separated prefixes of paths, such as "head,encoder"; and
    # "vocabulary" or "labels", where these are not the other run's.
    config.train.init_skip = ""
    config.train.log_every = 100  # steps between two lines of metrics
    config.train.save_every = 1500  # steps between two checkpoints: the paper's ten minutes
    config.train.trackers = ""  # log to "wandb", "mlflow" or both too (docs/running.md)
    # Steps in params/, the newest; at least evaluate.average_last. checkpoints/ holds two.
    config.train.keep = 5

    config.parallel = ConfigDict()
    config.parallel.strategy = "pmap"  # data-parallel; 'jit': one program over the mesh
    # Devices along (data, fsdp, tensor); 0: all remaining ones. fsdp and tensor shard params and
    # optimizer state, and need strategy 'jit' (docs/running.md).
    config.parallel.mesh = (0, 1, 1)
    # Several hosts. Only needed where JAX does not detect the cluster by itself.
    config.parallel.coordinator = ""  # HOST:PORT of process 0
    config.parallel.num_processes = 0
    config.parallel.process_id = 0

    config.evaluate = ConfigDict()
    config.evaluate.every = 5000  # steps between two validations; 0: only after the last step
    config.evaluate.split = "test"  # scored after training and by --mode=evaluate
    config.evaluate.weights = "average"  # or 'best' (of all validations), or 'latest'
    config.evaluate.average_last = 5  # checkpoints to average (paper, section 6.1)
    # Comma-separated workdirs to ensemble with: probabilities are averaged.
    config.evaluate.ensemble = ""
    config.evaluate.patience = 0  # early stopping: validations without a better score; 0: off
    return config
