"""The keys of config.vocabulary of every text task; sentence pairs have further keys."""

KEYS = {
    "vocabulary.size": [37_000, "at least 1 and at most 100000000"],  # pieces
    # Share of the text's characters; rarer characters fall back to bytes.
    "vocabulary.character_coverage": [0.9995, "above 0 and at most 1"],
    # Unicode normalisation of all texts, because macOS spells 한 as ᄒ, ᅡ, ᆫ. "": none.
    "vocabulary.normalisation": ["nfc", ("nfc", "")],
    "vocabulary.max_sentences": [4_000_000, "at least 0"],  # sentences to learn from; 0: all
    # Use this vocabulary instead of learning one: WORKDIR/vocabulary of another run, or a
    # SentencePiece .model file (SOURCE,TARGET for one file per side).
    "vocabulary.model": "",
    "vocabulary.fingerprint": "",  # hash of the pieces; filled in by the run
}
