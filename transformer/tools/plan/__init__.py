"""--mode=plan: estimates memory, FLOPs, communication and time of a run from its compiled step.

Read plan.py (the mode; its keys are in plan_keys.py), topologies.py (devices that are not there),
program.py (the instructions of a compiled program, and the bytes that they move), collectives.py
(the bytes that they send), step_time.py (the time that this takes).
"""
