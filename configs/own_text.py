"""A language model of your own text, in SentencePiece pieces: text files, plain, .gz or .xz.

    python launch.py --config=configs/own_text.py --config.data.directory=FOLDER
    echo "Once upon" | python launch.py --mode=generate --workdir=runs/own_text

FOLDER holds all.txt. Its first 90 % of lines are for training, the last 10 % for validation. For
other files give names (--config.data.train=a.txt,b.txt.gz --config.data.validation=c.txt). A line
is a paragraph. The scores are the perplexity per piece and per word, and the bits per character.
Between vocabularies, compare only the last two.

The model is for about a megabyte of text, on two CPU cores.
"""

from ml_collections import ConfigDict

from configs import language_modelling


def get_config() -> ConfigDict:
    config = language_modelling.get_config()
    config.data.train = "all.txt[:90%]"
    config.data.validation = "all.txt[90%:]"
    config.data.context_length = 128
    config.data.batch_tokens = 16 * 128
    config.vocabulary.size = 2000
    config.model.d_model = 128
    config.model.d_ff = 512
    config.model.num_heads = 4
    config.model.num_layers = 4
    config.model.max_positions = 128
    config.model.dropout_rate = 0.2
    config.train.num_steps = 2000
    config.train.save_every = 250
    config.evaluate.every = 250
    config.evaluate.patience = 3
    return config
