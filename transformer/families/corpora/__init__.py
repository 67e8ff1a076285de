"""Parallel text in other forms than two aligned files.

Read pair_files.py (tab-separated, JSON lines, Parquet), then mixtures.py (several corpora in a TOML
file, whose rows data/packing.py mixes).
"""
