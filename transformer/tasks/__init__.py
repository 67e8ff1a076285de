"""What a run learns. A task is a module with the names below, listed in registry.TASKS.

There is no class to extend. A new task is a module with these names, a line in registry.TASKS and a
file configs/TASK.py with all of its keys. A module has

    FREE                   tuple of config keys, or prefixes of keys, that may change when a run is
                           resumed: ("decode.", "model.dtype")
    SCORE                  {"best_by": the score that chooses best/ and early stopping, "best_is":
                           'highest' or 'lowest', "unit": what 'weight' counts, such as 'token'}
    summarise(means)       {name: value} to log besides the means per unit; may be left out
    check(config)          raises UserError for invalid values, before anything is written or
                           compiled; also for config.evaluate.ensemble if the model's outputs are
                           not logits, whose softmax an ensemble averages
    prepare(config, workdir, saved_config) -> config
                           builds missing corpora, vocabulary and caches, and returns the config
                           with their fingerprints filled in, and other keys that the data decide
                           on, such as a mean. These must be in FREE: a resumed run is compared
                           with its config.json before `prepare` has filled them in.
                           `saved_config`: the workdir's config if the run is resumed, or (in
                           processes after the first) what process 0 has just written; None in
                           process 0 of a new run. Its fingerprints are "" if config.json was lost.
                           Process 0 runs this before the others, so it must not make a collective
                           call
    identity(config) -> {name: fingerprint}
                           what ids or classes mean, such as {"vocabulary": "3f2a..."}; checkpoints
                           of another identity are refused
    sizes(config, workdir) -> dict
                           the model's arguments that come from the vocabulary or the classes;
                           workdir None: from the config alone, for --mode=plan
    model(config, sizes)   the flax module
    example(config, rows)  a batch of jax.ShapeDtypeStruct, [rows, ...]; rows 0: as many as a batch
                           of the run has
    loss(config, model)    a function (params, batch, *, rng) -> {name: sum over the batch}; "loss"
                           and "weight" are required, and training divides by "weight". "filled"
                           is the number of positions that are not padding, where it is to be logged
    evaluator(config, workdir, model, split)
                           the `Evaluation` (evaluation.py) of a split, such as "validation"
    build(config, workdir) the `Task` of a prepared workdir, by `make_task`: all that the training
                           loop reads
    reader(config, workdir)
                           may be left out: a report then has no section of the attention, and
                           --mode=classify nothing to read with. A function (line, number) ->
                           {input: array}, the model's inputs for one row, without the batch
                           dimension

Read task.py (the record, and helpers of every task), saved_model.py (workdirs -> model and params),
translation.py, then losses.py, splits.py, vocabularies.py, evaluation.py (the loop over a split's
batches) and attention_weights.py. Other tasks are in families/.
"""
