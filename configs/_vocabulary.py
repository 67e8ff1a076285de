"""The keys of config.vocabulary that every task of text has; those of sentence pairs have more."""

KEYS = {
    "vocabulary.size": [37_000, "at least 1 and at most 100000000"],  # pieces
    # Of the characters in the text; rarer ones fall back to bytes.
    "vocabulary.character_coverage": [0.9995, "above 0 and at most 1"],
    # Unicode's normalisation of all texts: macOS spells 한 as ᄒ, ᅡ, ᆫ. "": none, as files are.
    "vocabulary.normalisation": ["nfc", ("nfc", "")],
    "vocabulary.max_sentences": [4_000_000, "at least 0"],  # sentences to learn from; 0: all
    # Instead of learning one: WORKDIR/vocabulary of another run, or a SentencePiece .model file (of
    # sentence pairs SOURCE,TARGET, where each side has its own).
    "vocabulary.model": "",
    "vocabulary.fingerprint": "",  # hash of the pieces; filled in by the run
}
