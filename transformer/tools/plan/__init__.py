"""--mode=plan: estimates memory, FLOPs, communication and time of a run from its compiled step.

Read plan.py (the mode; its keys are in plan_keys.py), topologies.py (devices that are not there),
hlo.py (the instructions of a compiled program), program.py (the bytes that they move),
collectives.py (the bytes that they send), step_time.py (the time that this takes), plan_text.py
(the plan as a table).
"""
