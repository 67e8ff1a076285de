"""The keys of config.decode that only families/sampling reads."""

KEYS = {
    "decode.num_samples": [32, "at least 1"],  # samples that 'mbr' draws per line
    "decode.temperature": [1.0, "above 0 and at most 1000"],  # of 'sample' and 'mbr'
    # Sample from the k likeliest pieces; 0: all.
    "decode.top_k": [0, "at least 0"],
    # Nucleus sampling: from the likeliest pieces with this total probability.
    "decode.top_p": [1.0, "above 0 and at most 1"],
    "decode.utility": ["chrf", ("chrf", "bleu")],  # of 'mbr'
}
