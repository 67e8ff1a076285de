"""The keys that every run has, whatever it learns; a task's own are in configs/TASK.py.

The values are the paper's where it has them.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    config = ConfigDict()
    config.task = ""  # what is learnt: a name in transformer/tasks/__init__.py
    config.compilation_cache = "~/.cache/transformer"  # of compiled programs; "": none

    config.optimizer = ConfigDict()
    config.optimizer.name = "adam"  # or any other of optax: adamw, sgd, lion, adafactor, ...
    config.optimizer.arguments = ConfigDict()  # of that optimizer, but for its learning rate
    config.optimizer.arguments.b1 = 0.9
    config.optimizer.arguments.b2 = 0.98
    config.optimizer.arguments.eps = 1e-9
    config.optimizer.clip_norm = 0.0  # of the gradient; 0: none
    # The paper's: factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5); or one of
    # optax.schedules by its name and arguments.
    config.optimizer.schedule = ConfigDict()
    config.optimizer.schedule.name = "inverse_square_root"
    config.optimizer.schedule.d_model = 512
    config.optimizer.schedule.warmup_steps = 4000
    config.optimizer.schedule.factor = 1.0

    config.train = ConfigDict()
    config.train.num_steps = 100_000
    config.train.accumulate = 1  # parts that a batch goes through the model in
    config.train.seed = 0
    config.train.profile = 0  # steps to trace, into the workdir's profile/ (docs/performance.md)
    config.train.log_every = 100
    config.train.save_every = 1500  # the paper's ten minutes
    config.train.keep = 5

    config.parallel = ConfigDict()
    config.parallel.strategy = "pmap"  # or 'jit'
    # Devices along (data, fsdp, tensor), 0: all that are left; the last two split parameters and
    # moments, and want 'jit' (docs/running.md).
    config.parallel.mesh = (0, 1, 1)
    config.parallel.coordinator = ""  # HOST:PORT of process 0, if JAX cannot find the others itself
    config.parallel.num_processes = 0  # then, too
    config.parallel.process_id = 0

    config.evaluate = ConfigDict()
    config.evaluate.every = 5000  # steps; 0: at the end only
    config.evaluate.split = "test"  # of the final score
    config.evaluate.weights = "average"  # or 'best' (by validation), or 'latest'
    config.evaluate.average_last = 5
    # Further workdirs, by comma: the final score and outputs are by the mean of probabilities.
    config.evaluate.ensemble = ""
    config.evaluate.patience = 0  # validations without a better score before training stops; 0: off

    config.plan = ConfigDict()
    # How many devices to plan for: they are simulated on the CPU. 0: those that there are.
    config.plan.num_devices = 0
    # Or a slice of TPUs, such as 'v5e:4x4', whose own compiler is asked: it wants libtpu, no TPU.
    config.plan.topology = ""
    config.plan.device = ""  # 'TPU v5e', 'H100', ... (devices.PEAKS); "": what is here
    config.plan.share_of_peak = 0.4  # how much of its FLOP/s is reached
    config.plan.bandwidth = 0.0  # bytes/s that a device sends; 0: devices.SURROUNDINGS has it
    return config
