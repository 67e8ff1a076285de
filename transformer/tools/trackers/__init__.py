"""Services that a run's numbers are logged to: config.train.trackers. Read services.py."""
