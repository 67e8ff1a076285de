"""--mode=verify: compares checkpoints with their checksums. Read verify.py."""
