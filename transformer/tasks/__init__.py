"""Tasks: data, loss and scores of a run. A task is a module with the names below.

No class needs extending. A new task is such a module, a line in registry.TASKS and a file
configs/TASK.py with all its keys. A module has

    FREE                   config keys, or prefixes of keys, that may change when a run is resumed:
                           ("decode.", "model.dtype")
    SCORE                  {"best_by": the score that chooses best/ and early stopping, "best_is":
                           'highest' or 'lowest', "unit": the unit of 'weight', such as 'token'}
    summarise(means)       {name: value} to log besides the means per unit; optional
    check(config)          raises UserError for invalid values, before the run writes or compiles
                           anything; also for config.evaluate.ensemble if the model's outputs are
                           not logits
    prepare(config, workdir, saved_config) -> config
                           builds missing corpora, vocabulary and caches. Fills in their
                           fingerprints, and other keys that depend on the data, such as a mean.
                           These keys must be in FREE, because a resumed run is compared with its
                           config.json before `prepare`. `saved_config` is the config of a resumed
                           workdir, with fingerprints "" if config.json was lost. In a new run it is
                           None in process 0; later processes get the config that process 0 has
                           written. Process 0 runs `prepare` first, so it must not make a collective
                           call
    identity(config) -> {name: fingerprint}
                           the meaning of ids or classes, such as {"vocabulary": "3f2a..."};
                           checkpoints of another identity are refused
    sizes(config, workdir) -> dict
                           the model's arguments that depend on the vocabulary or the classes; with
                           workdir None, from the config alone, for --mode=plan
    model(config, sizes)   the flax module
    example(config, rows)  a batch of jax.ShapeDtypeStruct, [rows, ...]; rows 0 for a full batch
    loss(config, model)    a function (params, batch, *, rng) -> {name: sum over the batch}; "loss"
                           and "weight" are required, and training divides by "weight". If given,
                           "filled", the number of positions that are not padding, is logged
    evaluator(config, workdir, model, split)
                           the `Evaluation` (evaluation.py) of a split, such as "validation"
    build(config, workdir) the `Task` of a prepared workdir, made by `make_task`
    reader(config, workdir)
                           a function (line, number) -> {input: array}, the model's inputs for one
                           row, without the batch dimension. Optional; --mode=classify and a
                           report's attention section need it

Read task.py (the record, and helpers of every task), saved_model.py (workdirs -> model and params),
translation.py, then losses.py, splits.py, vocabularies.py, evaluation.py (the loop over a split's
batches) and attention_weights.py. Other tasks are in families/.
"""
