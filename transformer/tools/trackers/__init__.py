"""Experiment trackers of a run, config.train.trackers. Read services.py."""
