"""--mode=profile: a trace of a few training steps, for TensorBoard or Perfetto.

Read profile.py (the mode; its keys are in profile_keys.py).
"""
