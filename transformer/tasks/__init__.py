"""What is learnt. A task is a module of a few functions, named by `config.task` in the table below.

A module of this room has

    MODES                  the modes of launch.py that it has besides those of every task
    FREE                   config keys, or beginnings of such, that may change when a run is resumed
    check(config)          UserError for values that cannot work, before anything is written
    prepare(config, workdir, made) -> config
                           corpora, vocabulary and caches; fills in fingerprints. `made` is the
                           config that the run in this workdir began with, None if it begins now
    identity(config)       {name: fingerprint} of what ids or classes mean: checkpoints of another
                           one are refused
    sizes(config, workdir) what the model needs of vocabulary or classes; workdir None: as planned
    model(config, sizes)   the nn.Module
    example(config, rows)  a batch's jax.ShapeDtypeStructs; rows 0: as many as the run's have
    loss(config, model)    a function (params, batch, *, rng) -> sums over the batch, among them
                           'loss' and 'weight'
    evaluator(config, workdir, model, split)
                           an object with `scores(params, should_stop)`, `rehearse(params)`, and
                           what modes/evaluate.py reads of it; split 'validation' or 'final'
    build(config, workdir) the `Task`: all that training reads

Read task.py (the record, and what all tasks share), trained.py (workdirs -> model and params),
translation.py, then losses.py, splits.py and translation_evaluator.py.
"""

TASKS = {"translation": "transformer.tasks.translation"}
